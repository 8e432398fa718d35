#include "sim/rocev2_options.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "sim/words.h"

namespace mroce::sim {
namespace {

using rocev2::DcqcnConfig;
using rocev2::Recovery;

// ---- presets

constexpr Rocev2Preset kPresets[] = {
    {"rocev2", "DCQCN for a fabric with PFC: one NAK per gap, adaptive retransmission"},
    {"rocev2-lossy", "the same for a fabric without PFC: earlier timeouts"},
    {"hpcc", "as HPCC's ns-3 model: NACK interval 500 us, an ACK for every packet, variable window"},
    {"conweave", "as ConWeave's ns-3 model: NACK interval 4 us, a NACK cuts the rate"},
    {"cx", "ConnectX style: firmware's DCQCN with its default parameters, adaptive retransmission"},
    {"irn", "IRN: selective repeat, window of one bandwidth-delay product, no need for PFC"},
    {"conweave-irn", "as ConWeave's ns-3 model of IRN: a NACK cuts the rate and repeats all that is out"},
    {"ib", "no ECN and no DCQCN, for fabrics with credits"},
};

DcqcnConfig hpcc_dcqcn() {
  DcqcnConfig d;
  d.flavour = DcqcnConfig::Flavour::kHpccSim;
  d.scale_with_line = true;
  d.min_rate_bps = 1e9;
  return d;
}

DcqcnConfig firmware_dcqcn() {
  DcqcnConfig d;
  d.flavour = DcqcnConfig::Flavour::kMlx;
  d.min_rate_bps = 1e6;
  d.byte_reset = 32767;
  d.initial_alpha = 1023.0 / 1024;
  d.min_dec_fac = 0.5;
  return d;
}

Rocev2Options tuned() {
  Rocev2Options o;
  o.dcqcn = hpcc_dcqcn();
  o.loss.adaptive = true;
  o.loss.adaptive_base = micros(500);  // beyond what pauses may hold a packet back
  return o;
}

Rocev2Options make_lossy() {
  Rocev2Options o = tuned();
  o.loss.adaptive_base = micros(64);
  o.loss.adaptive_doublings = 8;  // up to 16 ms: no step to the ordinary timeout, which is 67 ms
  return o;
}

// What ConWeave's run script asks of DCQCN, beside HPCC's.
DcqcnConfig conweave_dcqcn() {
  DcqcnConfig d = hpcc_dcqcn();
  d.min_rate_bps = 100e6;
  d.ai_bps = 10e6;
  d.hai_bps = 25e6;
  return d;
}

Rocev2Options make_hpcc() {
  Rocev2Options o;
  o.dcqcn = hpcc_dcqcn();
  o.loss.nak_interval = micros(500);
  o.loss.timeout = micros(500);
  o.ack_interval = 1;
  o.window_bdp = 1;
  o.window_variable = true;
  o.ack_priority = 6;
  return o;
}

Rocev2Options make_conweave() {
  Rocev2Options o;
  o.dcqcn = conweave_dcqcn();
  o.loss.nak_interval = micros(4);
  o.loss.nak_cuts_rate = true;
  o.loss.timeout = millis(4);
  o.ack_interval = 1;
  o.ack_priority = 6;
  return o;
}

Rocev2Options make_cx() {
  Rocev2Options o;
  o.dcqcn = firmware_dcqcn();
  o.loss.adaptive = true;
  return o;
}

Rocev2Options make_irn() {
  Rocev2Options o;
  o.dcqcn = hpcc_dcqcn();
  o.loss.recovery = Recovery::kSelectiveRepeat;
  o.loss.rto_low = micros(100);
  o.loss.timeout = micros(320);
  o.ack_interval = 1;
  o.window_bdp = 1;
  o.ack_priority = 6;
  return o;
}

Rocev2Options make_conweave_irn() {
  Rocev2Options o = make_irn();
  o.dcqcn = conweave_dcqcn();
  o.loss.nak_cuts_rate = true;
  o.loss.nak_resends_all = true;
  return o;
}

Rocev2Options make_ib() {
  Rocev2Options o;
  o.dcqcn.enabled = false;
  o.ecn = false;
  return o;
}

// ---- settings

// Conversion between a field and a number in the key's unit. Bounds are of that number.
struct Setting {
  Rocev2Key key;
  double low = 0;
  double high = 0;
  bool whole = false;
  double (*get)(const Rocev2Options&) = nullptr;
  void (*put)(Rocev2Options&, double) = nullptr;
};

constexpr double kUsInNs = 1000;
double us(Nanos t) {
  return static_cast<double>(t.count()) / kUsInNs;
}
Nanos from_us(double value) {
  return Nanos{static_cast<int64_t>(std::llround(value * kUsInNs))};
}

#define MROCE_TIME(name, field, low, sentence)                                             \
  Setting {                                                                                \
    {name, sentence}, low, 1e9, false, [](const Rocev2Options& o) { return us(o.field); }, \
        [](Rocev2Options& o, double v) { o.field = from_us(v); }                           \
  }
#define MROCE_REAL(name, field, low, high, unit, sentence)                                               \
  Setting {                                                                                              \
    {name, sentence}, low, high, false, [](const Rocev2Options& o) { return double(o.field) / (unit); }, \
        [](Rocev2Options& o, double v) { o.field = v * (unit); }                                         \
  }
#define MROCE_COUNT(name, field, low, high, sentence)                                                       \
  Setting {                                                                                                 \
    {name, sentence}, low, high, true, [](const Rocev2Options& o) { return static_cast<double>(o.field); }, \
        [](Rocev2Options& o, double v) { o.field = static_cast<decltype(o.field)>(v); }                     \
  }

constexpr double kMega = 1e6;

const Setting kSettings[] = {
    MROCE_COUNT("dcqcn", dcqcn.enabled, 0, 1, "1: the reaction point acts on CNPs"),
    MROCE_COUNT("dcqcn_flavour", dcqcn.flavour, 0, 1, "0: HPCC's ns-3 model, 1: firmware (fixed point)"),
    MROCE_REAL("initial_rate_mbps", dcqcn.initial_rate_bps, 0, 1e8, kMega,
               "rate of a new flow; 0: line rate"),
    MROCE_REAL("min_rate_mbps", dcqcn.min_rate_bps, 0.001, 1e8, kMega, "no cut goes below it"),
    MROCE_REAL("ai_mbps", dcqcn.ai_bps, 0, 1e8, kMega, "additive increase"),
    MROCE_REAL("hai_mbps", dcqcn.hai_bps, 0, 1e8, kMega, "hyper increase"),
    MROCE_COUNT("scale_with_line", dcqcn.scale_with_line, 0, 1, "1: ai and hai are meant at 25 Gbit/s"),
    MROCE_COUNT("threshold", dcqcn.threshold, 0, 1000, "stages of fast recovery"),
    MROCE_TIME("time_reset_us", dcqcn.time_reset, 0.001, "clock between increases"),
    MROCE_COUNT("byte_reset", dcqcn.byte_reset, 0, 1e15, "bytes between increases; 0: none"),
    MROCE_REAL("g", dcqcn.g, 0, 1, 1.0, "weight of a new sample of alpha (flavour 0)"),
    MROCE_COUNT("alpha_keep", dcqcn.alpha_keep, 0, 1024,
                "dce_tcp_g: alpha keeps so many parts of 1024 (flavour 1)"),
    MROCE_TIME("alpha_period_us", dcqcn.alpha_period, 0.001, "time between updates of alpha"),
    MROCE_TIME("decrease_period_us", dcqcn.decrease_period, 0.001, "least time between two cuts"),
    MROCE_REAL("initial_alpha", dcqcn.initial_alpha, 0, 1, 1.0, "alpha at the first CNP"),
    MROCE_REAL("min_dec_fac", dcqcn.min_dec_fac, 0, 1, 1.0, "a cut keeps at least this part (flavour 1)"),
    MROCE_REAL("first_cnp_factor", dcqcn.first_cnp_factor, 0, 1, 1.0,
               "the first CNP multiplies the rate by it"),
    MROCE_COUNT("clamp_target", dcqcn.clamp_target, 0, 1, "1: every cut lowers the target to the rate"),
    MROCE_COUNT("clamp_after_time_inc", dcqcn.clamp_target_after_time_inc, 0, 1,
                "1: a cut lowers the target if the clock has raised the rate since the last"),
    MROCE_COUNT("selective_repeat", loss.recovery, 0, 1, "1: IRN instead of go-back-N"),
    MROCE_TIME("nack_interval_us", loss.nak_interval, 0, "a gap is reported again after it; 0: once"),
    MROCE_COUNT("nack_cuts_rate", loss.nak_cuts_rate, 0, 1, "1: a NACK counts as a CNP"),
    MROCE_COUNT("nack_resends_all", loss.nak_resends_all, 0, 1,
                "IRN: 1: a NACK outside of recovery repeats all that is not known to have arrived"),
    MROCE_TIME("rto_us", loss.timeout, 0, "retransmission timeout (IRN: RTO_high); 0: from `timeout`"),
    MROCE_TIME("rto_low_us", loss.rto_low, 0, "IRN's timeout while few packets are out; 0: none"),
    MROCE_COUNT("rto_low_packets", loss.rto_low_packets, 0, 1e6, "what few means"),
    MROCE_COUNT("adaptive", loss.adaptive, 0, 1, "1: adaptive retransmission"),
    MROCE_TIME("adaptive_base_us", loss.adaptive_base, 0.001, "its first timeout, up to twice that"),
    MROCE_COUNT("adaptive_doublings", loss.adaptive_doublings, 0, 20, "its timeouts before the ordinary one"),
    MROCE_COUNT("timeout", timeout, 0, 31, "4.096 us * 2^timeout; 0: never"),
    MROCE_COUNT("retry_cnt", retry_cnt, 0, 7, "timeouts in a row before a flow fails"),
    MROCE_COUNT("ecn", ecn, 0, 1, "1: data is ECT(0), marks are answered with CNPs"),
    MROCE_TIME("cnp_gap_us", cnp_gap, 0, "least time between CNPs of a flow"),
    MROCE_COUNT("ack_interval", ack_interval, 1, 1e6, "packets for each ACK inside of a message"),
    MROCE_REAL("window_bdp", window_bdp, 0, 1e6, 1.0, "window in bandwidth-delay products; 0: none"),
    MROCE_COUNT("window_variable", window_variable, 0, 1, "1: the window shrinks with the rate"),
    MROCE_COUNT("data_priority", data_priority, 0, 7, "priority of data of flows without one"),
    MROCE_COUNT("ack_priority", ack_priority, 0, 7, "priority of ACKs and NACKs"),
    MROCE_COUNT("cnp_priority", cnp_priority, 0, 7, "priority of CNPs"),
    MROCE_COUNT("message_bytes", message_bytes, 4096, 0x40000000, "longest WRITE"),
};
#undef MROCE_TIME
#undef MROCE_REAL
#undef MROCE_COUNT

const std::array<Rocev2Key, std::size(kSettings)> kKeys = [] {
  std::array<Rocev2Key, std::size(kSettings)> keys;
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = kSettings[i].key;
  return keys;
}();

const Setting* find(std::string_view key) {
  for (const Setting& setting : kSettings) {
    if (setting.key.name == key) return &setting;
  }
  return nullptr;
}

template <class Items>
std::string names(const Items& items) {
  std::string all;
  for (const auto& item : items) all += fmt::format("{}{}", all.empty() ? "" : ", ", item.name);
  return all;
}

}  // namespace

std::span<const Rocev2Preset> rocev2_presets() {
  return kPresets;
}
std::span<const Rocev2Key> rocev2_keys() {
  return kKeys;
}

tl::expected<Rocev2Options, std::string> rocev2_preset(std::string_view name) {
  if (name == "rocev2") return tuned();
  if (name == "rocev2-lossy") return make_lossy();
  if (name == "hpcc") return make_hpcc();
  if (name == "conweave") return make_conweave();
  if (name == "cx") return make_cx();
  if (name == "irn") return make_irn();
  if (name == "conweave-irn") return make_conweave_irn();
  if (name == "ib") return make_ib();
  return tl::unexpected(
      fmt::format("there is no RoCEv2 preset {}; there are {}", quoted(name), names(kPresets)));
}

tl::expected<void, std::string> set_rocev2(Rocev2Options& options, std::string_view key,
                                           std::string_view value) {
  const Setting* setting = find(key);
  if (setting == nullptr) {
    return tl::unexpected(fmt::format("RoCEv2 has no setting {}; it has {}", quoted(key), names(kKeys)));
  }
  const auto parsed = parse_decimal(value);
  if (!parsed || *parsed < setting->low || *parsed > setting->high ||
      (setting->whole && *parsed != std::floor(*parsed))) {
    return tl::unexpected(fmt::format("{} must be {} from {} to {}, not {}", key,
                                      setting->whole ? "a whole number" : "a number", setting->low,
                                      setting->high, quoted(value)));
  }
  setting->put(options, *parsed);
  return {};
}

tl::expected<void, std::string> set_rocev2(Rocev2Options& options, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return tl::unexpected(fmt::format("{} is not of the form key=value", quoted(assignment)));
  }
  return set_rocev2(options, assignment.substr(0, equals), assignment.substr(equals + 1));
}

std::string rocev2_value(const Rocev2Options& options, std::string_view key) {
  const Setting* setting = find(key);
  return setting == nullptr ? std::string{} : fmt::format("{}", setting->get(options));
}

}  // namespace mroce::sim
