#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "doctor/collect/machine.h"
#include "doctor/collect/snapshot.h"
#include "doctor/export/http.h"
#include "doctor/export/openmetrics.h"
#include "doctor/export/server.h"
#include "doctor/ingest.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string exposed(const std::vector<std::pair<std::string, std::string>>& files,
                    MetricFormat format = MetricFormat::kOpenMetrics) {
  Evidence evidence;
  for (const auto& [name, text] : files)
    ingest({name, name, text, false}, Context(evidence, builtin_rulebook()));
  assemble(evidence, builtin_rulebook());
  return expose({{&evidence, nullptr}}, builtin_rulebook(), {"1.2", 0.5}, format);
}

TEST(Families, names_are_unique_valid_and_end_in_their_unit) {
  std::set<std::string> names, canonicals;
  for (const MetricFamily& family : metric_families(builtin_rulebook().vendors)) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_THAT(family.name, testing::MatchesRegex("mroce_doctor_[a-z][a-z0-9_]*"));
    EXPECT_FALSE(family.name.ends_with("_total") || family.name.ends_with("_info")) << family.name;
    if (!family.unit.empty()) {
      EXPECT_THAT(family.name, EndsWith("_" + family.unit));
    }
    EXPECT_FALSE(family.help.empty()) << family.name;
    if (!family.canonical.empty()) {
      EXPECT_TRUE(canonicals.insert(family.canonical).second);
    }
  }
  EXPECT_EQ(canonicals.size() + 1, builtin_rulebook().vendors.canonicals().size()) << "all but IGNORE";
}

TEST(Expose, one_meaning_has_one_name_for_all_vendors_and_base_units) {
  const std::string text = exposed(
      {{"a-ethtool-eth0.txt", "NIC statistics:\n  rx_prio3_pause: 12\n  rx_prio3_pause_duration: 2500000\n"},
       {"b-ethtool-eth1.txt", "NIC statistics:\n  rx_pfc_ena_frames_pri4: 7\n"}});
  EXPECT_THAT(text, HasSubstr("# TYPE mroce_doctor_rx_pause_frames counter\n"
                              "# UNIT mroce_doctor_rx_pause_frames frames\n"
                              "# HELP mroce_doctor_rx_pause_frames "));
  EXPECT_THAT(text,
              HasSubstr("\nmroce_doctor_rx_pause_frames_total{host=\"a\",netdev=\"eth0\",priority=\"3\","
                        "vendor_name=\"rx_prio3_pause\",source=\"ethtool\"} 12\n"));
  EXPECT_THAT(text,
              HasSubstr("priority=\"4\",vendor_name=\"rx_pfc_ena_frames_pri4\",source=\"ethtool\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("vendor_name=\"rx_prio3_pause_duration\",source=\"ethtool\"} 2.5\n"));
  EXPECT_THAT(text, EndsWith("\n# EOF\n"));
}

TEST(Expose, the_last_reading_counts) {
  const std::string text = exposed({{"a-before.txt", "link mlx5_0/1 packet_seq_err 5\n"},
                                    {"a-after.txt", "link mlx5_0/1 packet_seq_err 9\n"}});
  EXPECT_THAT(text, HasSubstr("mroce_doctor_nak_seq_naks_total{host=\"a\",device=\"mlx5_0\",port=\"1\","
                              "vendor_name=\"packet_seq_err\",source=\"hw_counters\"} 9\n"));
}

TEST(Expose, the_old_format_has_no_end_mark_and_types_that_it_knows) {
  const std::string text = exposed({{"a.txt", "link mlx5_0/1 packet_seq_err 5\n"}}, MetricFormat::kText);
  EXPECT_THAT(text, HasSubstr("# TYPE mroce_doctor_nak_seq_naks_total counter\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE mroce_doctor_port_info gauge\n"));
  EXPECT_THAT(text, Not(HasSubstr("# UNIT")));
  EXPECT_THAT(text, Not(HasSubstr("# EOF")));
}

TEST(Expose, hostile_names_stay_within_their_quotes) {
  EXPECT_EQ(escaped_label("a\"} 1\nevil_total 5\n\\"), "a\\\"} 1 evil_total 5 \\\\");
  EXPECT_EQ(escaped_label("\xff\x01"), "\xef\xbf\xbd\xef\xbf\xbd");
  Evidence evidence;
  Port& port = evidence.port(evidence.host("h\"} 1\n# EOF\nx 2"), "d\\", 1, "");
  port.counters.emplace_back().canonical = "ecn_marked";
  port.counters.back().vendor_name = "a\"b\nc";
  port.counters.back().readings.push_back({3, 0, Phase::kUnknown, {}});
  const std::string text =
      expose({{&evidence, nullptr}}, builtin_rulebook(), {"1", 0}, MetricFormat::kOpenMetrics);
  EXPECT_THAT(text, HasSubstr("{host=\"h\\\"} 1 # EOF x 2\",device=\"d\\\\\",port=\"1\","
                              "vendor_name=\"a\\\"b c\"} 3\n"));
  EXPECT_EQ(text.find("\n# EOF\n"), text.size() - 7) << "the only one";
}

TEST(Expose, a_series_is_there_once) {
  Evidence evidence;
  for (int i = 0; i < 2; ++i) {
    Port& port = evidence.host("h").ports.emplace_back();
    port.counters.emplace_back().canonical = "ecn_marked";
    port.counters.back().readings.push_back({3, 0, Phase::kUnknown, {}});
  }
  const std::string text =
      expose({{&evidence, nullptr}}, builtin_rulebook(), {"1", 0}, MetricFormat::kOpenMetrics);
  const size_t first = text.find("mroce_doctor_ecn_marked_packets_total{");
  EXPECT_EQ(text.find("mroce_doctor_ecn_marked_packets_total{", first + 1), std::string::npos);
}

TEST(Machine, a_recorded_tree_is_read_and_mapped) {
  const std::string root = ::testing::TempDir() + "/mroce-export-" + std::to_string(::getpid());
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  put("/proc/sys/kernel/hostname", "nodeA\n");
  put("/sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent", "42\n");
  put("/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "10\n");
  put("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  put("/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  put("/sys/class/net/eth0/statistics/tx_bytes", "77\n");
  Evidence evidence;
  CollectOptions options;
  options.root = root;
  const Bundle bundle = bundle_around(options, take_sample(options, find_ports(Tree(root))));
  ingest({"this machine", "", to_json(bundle), false}, Context(evidence, builtin_rulebook()));
  assemble(evidence, builtin_rulebook());
  std::filesystem::remove_all(root);
  const std::string text =
      expose({{&evidence, nullptr}}, builtin_rulebook(), {"1", 0}, MetricFormat::kOpenMetrics);
  EXPECT_THAT(text, HasSubstr("vendor_name=\"np_cnp_sent\",source=\"hw_counters\"} 42\n"));
  EXPECT_THAT(text, HasSubstr("vendor_name=\"port_xmit_data\",source=\"counters\"} 40\n"))
      << "units of four bytes";
  EXPECT_THAT(text,
              testing::ContainsRegex("mroce_doctor_link_up\\{host=\"nodeA\",device=\"mlx5_0\"[^}]*\\} 1\n"));
  EXPECT_THAT(text, testing::ContainsRegex("link_rate_bytes_per_second\\{[^}]*\\} 50000000000\n"));
}

std::string answer_to(const std::string& request) {
  return respond(request, [](MetricFormat format) {
    return format == MetricFormat::kText ? std::string("old") : std::string("open");
  });
}

TEST(Http, the_metrics_are_given_in_the_format_that_is_asked_for) {
  const std::string open = answer_to("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(open, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(open,
              HasSubstr("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
  EXPECT_THAT(open, EndsWith("\r\n\r\nopen"));
  EXPECT_THAT(answer_to("GET /metrics HTTP/1.1\r\nAccept: text/plain;version=0.0.4\r\n\r\n"),
              EndsWith("old"));
  EXPECT_THAT(answer_to("GET /metrics?x=1 HTTP/1.0\n\n"), EndsWith("open"));
}

TEST(Http, what_is_not_a_scrape_is_refused_by_its_kind) {
  const auto status = [](const std::string& request) { return answer_to(request).substr(9, 3); };
  EXPECT_EQ(status("GET / HTTP/1.1\r\n\r\n"), "404");
  EXPECT_EQ(status("GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n"), "404");
  EXPECT_EQ(status("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), "405");
  EXPECT_EQ(status("HEAD /metrics HTTP/1.1\r\n\r\n"), "405");
  EXPECT_EQ(status("GET /metrics HTTP/2.0\r\n\r\n"), "505");
  for (const char* bad :
       {"\r\n\r\n", "GET\r\n\r\n", "GET  /metrics HTTP/1.1\r\n\r\n", "GET /metrics\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", "GET /metrics HTTP/1.1\r\nA : b\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nA: b\x01\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "\x16\x03\x01\x02\n\n",
        "GE\tT / HTTP/1.1\r\n\r\n"})
    EXPECT_EQ(status(bad), "400") << bad;
}

TEST(ListenAddress, takes_addresses_and_refuses_names) {
  EXPECT_EQ(listen_address("9750")->host, "127.0.0.1");
  EXPECT_EQ(listen_address(":81")->host, "0.0.0.0");
  EXPECT_EQ(listen_address("[::1]:81")->host, "::1");
  EXPECT_EQ(listen_address("10.0.0.1:65535")->port, 65535);
  for (const char* bad : {"", "host:1", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1", "1.2.3.4:0x50"})
    EXPECT_FALSE(listen_address(bad)) << bad;
}

class Server : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.listen({"127.0.0.1", 0}));
    thread_ = std::thread([this] { server_.serve(stop_); });
  }
  void TearDown() override {
    const uint64_t one = 1;
    ASSERT_EQ(::write(stop_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    thread_.join();
    ::close(stop_);
  }
  int connect() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  static void say(int fd, std::string_view text) { ::send(fd, text.data(), text.size(), MSG_NOSIGNAL); }
  static std::string rest_of(int fd) {
    std::string out;
    char bytes[4096];
    for (ssize_t got; (got = ::recv(fd, bytes, sizeof bytes, 0)) > 0;)
      out.append(bytes, static_cast<size_t>(got));
    ::close(fd);
    return out;
  }

  static constexpr size_t kBig = 4u << 20;  // more than socket buffers hold
  ScrapeServer server_{
      [](MetricFormat) { return std::string(kBig, 'x'); },
      {4, std::chrono::milliseconds(300), std::chrono::milliseconds(2000), std::chrono::milliseconds(200)}};
  int stop_ = ::eventfd(0, EFD_CLOEXEC);
  std::thread thread_;
};

TEST_F(Server, answers_whole_while_others_are_silent_or_do_not_read) {
  const int silent = connect(), half = connect(), deaf = connect();
  say(half, "GET /met");
  say(deaf, "GET /metrics HTTP/1.1\r\n\r\n");
  const int fd = connect();
  say(fd, "GET /metrics HTTP/1.1\r\n\r\n");
  const std::string answer = rest_of(fd);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kBig);
  EXPECT_THAT(rest_of(silent), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(rest_of(half), StartsWith("HTTP/1.1 408 "));
  ::close(deaf);
}

TEST_F(Server, a_request_without_end_is_refused_at_its_bound) {
  const int fd = connect();
  say(fd, "GET /metrics HTTP/1.1\r\nA: " + std::string(2 * kMaxRequestBytes, 'a'));
  EXPECT_THAT(rest_of(fd), StartsWith("HTTP/1.1 431 "));
}

TEST_F(Server, many_connections_send_the_oldest_away_and_the_newest_is_served) {
  std::vector<int> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connect());
  const int fd = connect();
  say(fd, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(rest_of(fd), StartsWith("HTTP/1.1 404 "));
  for (const int one : silent) ::close(one);
}

}  // namespace
}  // namespace mroce::doctor
