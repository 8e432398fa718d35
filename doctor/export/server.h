// A server for scrapes in one thread: a poll loop over few connections, each with a bounded request and a
// deadline, so that nobody who is slow or silent keeps others waiting.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "doctor/export/openmetrics.h"

namespace mroce::doctor {

struct ListenAddress {
  std::string host = "127.0.0.1";  // a number, not a name
  uint16_t port = 9750;
};
// "127.0.0.1:9750", "[::1]:9750", ":9750" (all interfaces), "9750" (this machine only). Port 0: any free one.
tl::expected<ListenAddress, std::string> listen_address(std::string_view text);

class ScrapeServer {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    size_t connections = 32;  // one more sends the oldest away
    std::chrono::milliseconds request{5000}, response{10000}, goodbye{1000};
  };
  using Metrics = std::function<std::string(MetricFormat)>;

  explicit ScrapeServer(Metrics metrics);
  ScrapeServer(Metrics metrics, Limits limits) : metrics_(std::move(metrics)), limits_(limits) {}
  ~ScrapeServer();
  ScrapeServer(const ScrapeServer&) = delete;
  ScrapeServer& operator=(const ScrapeServer&) = delete;

  tl::expected<void, std::string> listen(const ListenAddress& address);
  uint16_t port() const { return port_; }
  // Until `stop_fd` becomes readable (-1: for ever).
  void serve(int stop_fd);

 private:
  enum class Stage : uint8_t { kRequest, kResponse, kGoodbye };
  struct Connection {
    int fd = -1;
    Stage stage = Stage::kRequest;
    Clock::time_point deadline;
    std::string in, out;
    size_t sent = 0;
  };
  void accept_all();
  bool advance(Connection& connection);  // false: it is over
  bool read_request(Connection& connection);
  bool write_response(Connection& connection);
  bool drain(Connection& connection);
  void answer(Connection& connection, std::string text);
  void expire();
  int wait_ms() const;

  Metrics metrics_;
  Limits limits_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::vector<Connection> connections_;
};

}  // namespace mroce::doctor
