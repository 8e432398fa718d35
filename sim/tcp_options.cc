#include "sim/tcp_options.h"

#include "sim/words.h"

namespace mroce::sim {
namespace {

bool set_time(std::string_view text, uint64_t low_us, SimTime& out) {
  constexpr uint64_t kHighUs = 3'600'000'000;
  int64_t us = 0;
  if (!set_whole(text, low_us, kHighUs, us)) return false;
  out = microseconds(us);
  return true;
}

bool set_gain(std::string_view text, double& out) {
  const auto value = parse_decimal(text);
  if (!value || *value <= 0 || *value > 1) return false;
  out = *value;
  return true;
}

bool set_control(std::string_view text, TcpControl& out) {
  if (text != "reno" && text != "dctcp") return false;
  out = text == "reno" ? TcpControl::kReno : TcpControl::kDctcp;
  return true;
}

}  // namespace

bool TcpOptions::set(std::string_view key, std::string_view value, std::string& error) {
  bool good = false;
  if (key == "control")
    good = set_control(value, control);
  else if (key == "sack")
    good = set_flag(value, sack);
  else if (key == "rack")
    good = set_flag(value, rack);
  else if (key == "tlp")
    good = set_flag(value, tlp);
  else if (key == "initial_window")
    good = set_whole(value, 1, 65536, initial_window);
  else if (key == "receive_window")
    good = set_whole(value, 1 << 16, 1 << 30, receive_window);
  else if (key == "rto_min_us")
    good = set_time(value, 1, rto_min);
  else if (key == "rto_max_us")
    good = set_time(value, 1, rto_max);
  else if (key == "rto_initial_us")
    good = set_time(value, 1, rto_initial);
  else if (key == "delayed_ack_us")
    good = set_time(value, 1, delayed_ack);
  else if (key == "tlp_min_us")
    good = set_time(value, 0, tlp_min);
  else if (key == "ack_every")
    good = set_whole(value, 1, 256, ack_every);
  else if (key == "quick_acks")
    good = set_whole(value, 0, 65536, quick_acks);
  else if (key == "dupack_threshold")
    good = set_whole(value, 1, 1024, dupack_threshold);
  else if (key == "dctcp_gain")
    good = set_gain(value, dctcp_gain);
  else {
    error = "unknown key " + quoted(key) + "; tcp has: " + kKeys;
    return false;
  }
  if (!good) error = quoted(value) + " is not a value of " + std::string(key);
  return good;
}

}  // namespace mroce::sim
