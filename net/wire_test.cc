#include "net/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "net/test_support.h"

namespace mroce::net {
namespace {

using ::testing::ElementsAre;

constexpr uint16_t kBasePort = 62256;
constexpr Time kStart = time_from_ns(1'000'000'000);

class Arrivals : public WireUser {
 public:
  void arrived(const RxMeta&, std::span<const std::byte> bytes, uint32_t segment_bytes) override {
    lengths.push_back(bytes.size());
    segments.push_back(segment_bytes);
  }
  std::vector<size_t> lengths;
  std::vector<uint32_t> segments;
};

bool has_tshark() {
  return std::system("command -v tshark >/dev/null 2>&1") == 0;
}

class TraceFile {
 public:
  TraceFile() : path_(::testing::TempDir() + "mroce-wire-" + std::to_string(getpid()) + ".pcapng") {}
  ~TraceFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }
  // The fields of each frame, as lines of columns.
  std::vector<std::string> columns(const std::string& fields) const {
    const std::string command = "tshark -r " + path_ + " -T fields " + fields + " 2>/dev/null";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::vector<std::string> lines;
    char buffer[1024];
    while (pipe && std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr)
      lines.emplace_back(buffer, std::strlen(buffer) - 1);
    return lines;
  }

 private:
  std::string path_;
};

class WireTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LocalAddress local;
    local.gid = *parse_address("127.0.0.1");
    local.interface = "lo";
    local.ifindex = 1;
    addresses_ = {local};
    auto opened = ReceiveSockets::open(addresses_, kBasePort, 8 << 20);
    ASSERT_TRUE(opened.has_value()) << opened.error();
    receivers_.emplace(std::move(*opened));
  }
  Wire wire(const std::string& impair) {
    return Wire(SendSockets(addresses_), Impairment(*parse_clauses(impair), 1, kStart), std::nullopt, user_);
  }
  Wire traced_wire(const std::string& impair, const TraceFile& file) {
    Wire::Trace trace{std::move(*PcapngWriter::open(file.path())), 0, {{addresses_[0].gid, 1}}};
    return Wire(SendSockets(addresses_), Impairment(*parse_clauses(impair), 1, kStart), std::move(trace),
                user_);
  }
  // The third byte of each segment is its path, the last one its number.
  TxBurst burst(uint32_t segments) {
    data_.assign(size_t{segments} * 100, std::byte{0});
    for (uint32_t i = 0; i < segments; ++i) data_[i * 100 + 99] = static_cast<std::byte>(i);
    slice_ = {data_.data(), data_.size()};
    TxBurst result;
    result.to = {addresses_[0].gid, static_cast<uint16_t>(kBasePort + receivers_->slot())};
    result.segments = segments;
    result.segment_bytes = 100;
    result.total_bytes = segments * 100;
    result.slices = {&slice_, 1};
    return result;
  }
  std::optional<Received> wait_for() {
    pollfd waiting{receivers_->fd(0), POLLIN, 0};
    if (poll(&waiting, 1, 5000) != 1) return std::nullopt;
    return receivers_->receive(0);
  }

  std::vector<LocalAddress> addresses_;
  std::optional<ReceiveSockets> receivers_;
  Arrivals user_;
  std::vector<std::byte> data_;
  Slice slice_{};
};

TEST_F(WireTest, without_impairment_a_burst_goes_straight_through_both_ways) {
  Wire link = wire("");
  link.send(kStart, burst(5));
  EXPECT_TRUE(link.empty());
  const auto received = wait_for();
  ASSERT_TRUE(received.has_value());
  link.receive(kStart, *received);
  EXPECT_THAT(user_.lengths, ElementsAre(500));
  EXPECT_THAT(user_.segments, ElementsAre(100));
  EXPECT_EQ(link.impairment().counters(true).offered, 0u);
}

TEST_F(WireTest, a_delayed_burst_leaves_at_its_time) {
  Wire link = wire("delay=1ms");
  link.send(kStart, burst(5));
  EXPECT_FALSE(link.empty());
  EXPECT_EQ(link.next_deadline(), kStart + millis(1));
  EXPECT_FALSE(receivers_->receive(0).has_value());
  link.progress(kStart + millis(1));
  EXPECT_TRUE(link.empty());
  const auto received = wait_for();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->bytes.size(), 500u);
}

TEST_F(WireTest, a_refused_burst_is_reported_once_with_its_port) {
  Wire link = wire("");
  TxBurst sent = burst(1);
  sent.to.ip = *parse_address("203.0.113.1");  // not reachable from 127.0.0.1
  link.send(kStart, sent);
  EXPECT_EQ(link.take_refused(), 1u);
  EXPECT_EQ(link.take_refused(), 0u);
  EXPECT_FALSE(link.blocked());
}

TEST_F(WireTest, a_trace_shows_what_was_sent_dropped_and_received) {
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  const TraceFile file;
  Wire link = traced_wire("loss=100%,path=1", file);
  link.send(kStart, burst(3));
  TxBurst lost = burst(2);
  lost.path = 1;
  link.send(kStart, lost);
  const auto received = wait_for();
  ASSERT_TRUE(received.has_value());
  link.receive(kStart, *received);
  link.close();
  const std::string out = "0x00000002\t";
  const std::string in = "0x00000001\t";
  const std::string dropped = out + "dropped by impairment";
  EXPECT_THAT(file.columns("-e frame.packet_flags_direction -e frame.comment"),
              ElementsAre(out, out, out, dropped, dropped, in, in, in));
}

// What the trace tells of three bursts of 20 datagrams, as number and comment.
std::vector<std::string> numbers_and_comments(const TraceFile& file) {
  std::vector<std::string> result;
  for (const std::string& line : file.columns("-e udp.payload -e frame.comment")) {
    const size_t tab = line.find('\t');
    result.push_back(std::to_string(std::stoul(line.substr(tab - 2, 2), nullptr, 16)) + line.substr(tab + 1));
  }
  return result;
}

// 0 to 19 three times, whatever the comments are. Returns how many have one.
int expect_the_order_of_the_transport(const std::vector<std::string>& numbers) {
  int comments = 0;
  EXPECT_EQ(numbers.size(), 60u);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string number = std::to_string(i % 20);
    EXPECT_EQ(numbers[i].substr(0, numbers[i].find('d')), number) << "at " << i;
    comments += numbers[i] == number + "dropped by impairment" ? 1 : 0;
  }
  return comments;
}

TEST_F(WireTest, a_trace_keeps_dropped_datagrams_in_their_places_among_those_sent) {
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  for (const char* clauses : {"loss=40%", "loss=40%,corrupt=20%", "loss=40%;ce=30%", "loss=95%"}) {
    SCOPED_TRACE(clauses);
    const TraceFile file;
    Wire link = traced_wire(clauses, file);
    for (int i = 0; i < 3; ++i) {
      TxBurst sent = burst(20);
      sent.ecn = Ecn::kEct0;
      link.send(kStart, sent);
    }
    const uint64_t dropped = link.impairment().counters(true).dropped();
    link.close();
    EXPECT_GT(dropped, 10u);
    EXPECT_LT(dropped, 60u);
    EXPECT_EQ(expect_the_order_of_the_transport(numbers_and_comments(file)), static_cast<int>(dropped));
  }
}

TEST_F(WireTest, a_trace_keeps_dropped_datagrams_in_their_places_among_those_received) {
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  for (const char* clauses : {"loss=40%,dir=in", "loss=40%,corrupt=20%,dir=in", "loss=95%,dir=in"}) {
    SCOPED_TRACE(clauses);
    const TraceFile file;
    Wire link = traced_wire(clauses, file);
    burst(20);
    for (int i = 0; i < 3; ++i) link.receive(kStart, {{}, data_, 100, 0});
    const uint64_t dropped = link.impairment().counters(false).dropped();
    link.close();
    EXPECT_GT(dropped, 10u);
    EXPECT_LT(dropped, 60u);
    EXPECT_EQ(expect_the_order_of_the_transport(numbers_and_comments(file)), static_cast<int>(dropped));
  }
}

TEST_F(WireTest, a_trace_shows_delayed_datagrams_when_they_left_and_never_steps_back_in_time) {
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  const TraceFile file;
  Wire link = traced_wire("loss=20%,path=0;delay=1ms,path=1", file);
  TxBurst late = burst(20);
  for (size_t i = 0; i < 20; ++i) data_[i * 100 + 2] = std::byte{1};
  late.path = 1;
  link.send(kStart, late);
  link.send(kStart + micros(400), burst(20));
  EXPECT_GT(link.impairment().counters(true).dropped(), 0u);
  link.progress(kStart + millis(1));
  link.close();
  std::vector<std::string> expected(20, "1.000400000");
  expected.insert(expected.end(), 20, "1.001000000");
  EXPECT_EQ(file.columns("-e frame.time_epoch"), expected);
}

TEST_F(WireTest, a_trace_keeps_dropped_datagrams_behind_the_delayed_ones_that_were_sent_before) {
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  for (const char* clauses : {"loss=30%,delay=1ms:500us", "loss=30%,delay=1ms,corrupt=10%,dir=in"}) {
    SCOPED_TRACE(clauses);
    const TraceFile file;
    Wire link = traced_wire(clauses, file);
    Time now = kStart;
    for (int i = 0; i < 3; ++i) {
      if (link.impairment().impairs_in()) {
        burst(20);
        link.receive(now, {{}, data_, 100, 0});
      } else {
        link.send(now, burst(20));
      }
      now += micros(300);
      link.progress(now);
    }
    link.progress(kStart + millis(10));
    for (int i = 0; i < 10 && !link.empty(); ++i) link.progress(kStart + millis(10));  // each is bounded
    EXPECT_TRUE(link.empty());
    link.close();
    EXPECT_GT(expect_the_order_of_the_transport(numbers_and_comments(file)), 5);
    const auto times = file.columns("-e frame.time_epoch");
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  }
}

TEST_F(WireTest, a_trace_says_what_the_kernel_refused) {
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  const TraceFile file;
  Wire link = traced_wire("", file);
  TxBurst sent = burst(2);
  sent.to.ip = *parse_address("203.0.113.1");  // not reachable from 127.0.0.1
  link.send(kStart, sent);
  link.close();
  EXPECT_THAT(file.columns("-e frame.comment"),
              ElementsAre("refused by the kernel", "refused by the kernel"));
}

bool run(const char* command) {
  return std::system(command) == 0;
}

// Sends into a slow queue until the socket's buffer is full, opens the queue, and counts what comes out. 0 is
// fine.
int fill_a_slow_link_and_lose_nothing() {
  constexpr int kNoShaper = 76;
  if (!run("ip link set lo up") ||
      !run("tc qdisc add dev lo root tbf rate 8mbit burst 200k limit 50m 2>/dev/null")) {
    return kNoShaper;
  }
  auto addresses = find_local_addresses("127.0.0.1");
  auto receivers = ReceiveSockets::open(*addresses, kBasePort, 64 << 20);
  Arrivals user;
  Wire link(SendSockets(*addresses), Impairment(), std::nullopt, user);
  const std::vector<std::byte> data(60000);
  const Slice slice{data.data(), data.size()};
  TxBurst burst;
  burst.to = {addresses->front().gid, kBasePort};
  burst.segments = 15;
  burst.segment_bytes = 4000;
  burst.total_bytes = 60000;
  burst.slices = {&slice, 1};
  uint64_t sent = 0;
  for (; !link.blocked(); ++sent) {
    if (sent > 1000) return 1;
    link.send(kStart, burst);
  }
  link.progress(kStart + micros(300));
  if (!link.blocked() || link.empty() || link.next_deadline() <= kStart + micros(300)) return 2;
  if (!run("tc qdisc change dev lo root tbf rate 8gbit burst 200k limit 50m")) return 3;
  uint64_t received = 0;
  while (received < sent * 60000) {
    link.progress(kStart + micros(400));  // time stands still: nothing is given up
    pollfd waiting{receivers->fd(0), POLLIN, 0};
    if (poll(&waiting, 1, 5000) != 1) return 4;
    while (const auto part = receivers->receive(0)) received += part->bytes.size();
  }
  if (link.blocked() || link.gave_up() != 0 || link.take_refused() != 0) return 5;

  run("tc qdisc change dev lo root tbf rate 8kbit burst 200k limit 50m");
  while (!link.blocked()) link.send(kStart, burst);
  link.progress(kStart + millis(11));  // now the time is over
  return !link.blocked() && link.gave_up() == 1 && link.take_refused() == 1 ? 0 : 6;
}

TEST(WireOnASlowLink, a_full_socket_buffer_delays_a_burst_and_gives_it_up_only_after_its_time) {
  const int result = in_own_network(fill_a_slow_link_and_lose_nothing);
  if (result == kNoNamespace || result == 76) MROCE_CANNOT("no user namespaces or no tc on this host");
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace mroce::net
