#include "net/sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "net/receive_sockets.h"
#include "net/send_sockets.h"

namespace mroce::net {
namespace {

using ::testing::HasSubstr;

constexpr uint16_t kBasePort =
    61696;  // just above the default range, so that a running endpoint is not in the way

std::vector<LocalAddress> loopback(bool v6) {
  LocalAddress address;
  address.gid = *parse_address(v6 ? "::1" : "127.0.0.1");
  address.interface = "lo";
  address.ifindex = 1;
  address.link_mtu = 65536;
  return {address};
}

bool has_v6_loopback() {
  const FileDescriptor fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress local = socket_address({*parse_address("::1"), 0}, 1);
  return fd && bind(fd.get(), local.get(), local.length) == 0;
}

std::optional<Received> wait_for(ReceiveSockets& sockets, size_t index = 0) {
  pollfd waiting{sockets.fd(index), POLLIN, 0};
  if (poll(&waiting, 1, 5000) != 1) return std::nullopt;
  return sockets.receive(index);
}

class RoundTrip : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !has_v6_loopback()) GTEST_SKIP() << "no ::1 on this host";
    auto opened = ReceiveSockets::open(loopback(GetParam()), kBasePort, 4 << 20);
    ASSERT_TRUE(opened.has_value()) << opened.error();
    receivers_.emplace(std::move(*opened));
    to_ = {loopback(GetParam())[0].gid, static_cast<uint16_t>(kBasePort + receivers_->slot())};
  }

  TxBurst burst(uint32_t segments, uint32_t segment_bytes, uint32_t last_bytes) {
    data_.resize(size_t{segment_bytes} * (segments - 1) + last_bytes);
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<std::byte>(i * 7 + i / 251);
    slices_.clear();  // cut at odd places, also across segments
    for (size_t at = 0; at < data_.size(); at += 1500) {
      slices_.push_back({data_.data() + at, std::min<size_t>(1500, data_.size() - at)});
    }
    TxBurst result;
    result.to = to_;
    result.segments = segments;
    result.segment_bytes = segment_bytes;
    result.total_bytes = static_cast<uint32_t>(data_.size());
    result.slices = slices_;
    return result;
  }

  std::optional<ReceiveSockets> receivers_;
  UdpAddress to_;
  std::vector<std::byte> data_;
  std::vector<Slice> slices_;
};

TEST_P(RoundTrip, fifteen_large_segments_travel_as_one_with_their_ecn) {
  SendSockets senders(loopback(GetParam()));
  for (const Ecn ecn : {Ecn::kEct0, Ecn::kCe, Ecn::kNotEct}) {
    TxBurst sent = burst(15, 4148, 4148);
    sent.ecn = ecn;
    sent.entropy = 17;
    const SendResult result = senders.send(sent);
    ASSERT_EQ(result.outcome, SendOutcome::kSent) << std::strerror(result.error);
    EXPECT_EQ(result.segments, 15u);
    const auto received = wait_for(*receivers_);
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->segment_bytes, 4148u);
    EXPECT_EQ(received->meta.ecn, ecn);
    EXPECT_EQ(received->meta.from.ip, to_.ip);
    EXPECT_EQ(received->meta.from.port, senders.source_port(0, 17));
    EXPECT_TRUE(std::equal(received->bytes.begin(), received->bytes.end(), data_.begin(), data_.end()));
  }
  EXPECT_EQ(senders.counters().calls, 3u) << "one system call a burst";
}

TEST_P(RoundTrip, a_short_last_segment_and_a_single_one_keep_their_lengths) {
  SendSockets senders(loopback(GetParam()));
  ASSERT_EQ(senders.send(burst(3, 1200, 77)).outcome, SendOutcome::kSent);
  const auto three = wait_for(*receivers_);
  ASSERT_TRUE(three.has_value());
  EXPECT_EQ(three->segment_bytes, 1200u);
  EXPECT_EQ(three->bytes.size(), 2477u);

  ASSERT_EQ(senders.send(burst(1, 40, 40)).outcome, SendOutcome::kSent);
  const auto one = wait_for(*receivers_);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->segment_bytes, 40u);
  EXPECT_EQ(one->bytes.size(), 40u);
  EXPECT_FALSE(receivers_->receive(0).has_value()) << "nothing else is there";
}

TEST_P(RoundTrip, segments_go_one_by_one_where_the_kernel_refuses_to_segment) {
  SendSockets senders(loopback(GetParam()));
  // Without UDP checksums the kernel segments nothing (EINVAL).
  ASSERT_TRUE(GetParam() ? set_option(senders.descriptor(0, 0), IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)
                         : set_option(senders.descriptor(0, 0), SOL_SOCKET, SO_NO_CHECK, 1));
  if (GetParam()) set_option(receivers_->fd(0), IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
  TxBurst sent = burst(5, 1000, 10);
  sent.ecn = Ecn::kEct0;
  const SendResult result = senders.send(sent);
  ASSERT_EQ(result.outcome, SendOutcome::kSent) << std::strerror(result.error);
  EXPECT_EQ(result.segments, 5u);
  EXPECT_EQ(senders.counters().gso_refused, 1u);
  size_t at = 0;
  while (at < data_.size()) {
    const auto received = wait_for(*receivers_);
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->meta.ecn, Ecn::kEct0);
    ASSERT_TRUE(
        std::equal(received->bytes.begin(), received->bytes.end(), data_.begin() + static_cast<long>(at)));
    at += received->bytes.size();
  }
}

TEST_P(RoundTrip, equal_entropy_is_an_equal_source_port_and_the_pool_is_bounded) {
  SendSockets senders(loopback(GetParam()), 4);
  const uint16_t first = senders.source_port(0, 0);
  EXPECT_NE(first, senders.source_port(0, 1));
  EXPECT_EQ(first, senders.source_port(0, 0));
  for (uint16_t entropy = 2; entropy < 20; ++entropy) senders.source_port(0, entropy);
  EXPECT_EQ(senders.open_sockets(), 4u);
  EXPECT_EQ(senders.counters().sockets_closed, 16u);
  EXPECT_EQ(senders.source_port(0, 0), first) << "the same way through the network as before";
  ASSERT_EQ(senders.send(burst(2, 100, 50)).outcome, SendOutcome::kSent) << "a closed entropy opens again";
  EXPECT_TRUE(wait_for(*receivers_).has_value());
}

TEST_P(RoundTrip, a_socket_serves_further_peers_beside_its_first_one) {
  SendSockets senders(loopback(GetParam()));
  auto other = ReceiveSockets::open(loopback(GetParam()), kBasePort, 1 << 20);
  ASSERT_TRUE(other.has_value()) << other.error();
  const UdpAddress first = to_;
  const UdpAddress second{to_.ip, static_cast<uint16_t>(kBasePort + other->slot())};
  for (int turn = 0; turn < 20; ++turn) {  // each with acknowledgements that are not ECN-capable between
    TxBurst sent = burst(2, 500, 100);
    sent.to = turn % 2 == 0 ? first : second;
    sent.ecn = turn % 3 == 0 ? Ecn::kEct0 : Ecn::kNotEct;
    ASSERT_EQ(senders.send(sent).outcome, SendOutcome::kSent);
    const auto received = wait_for(turn % 2 == 0 ? *receivers_ : *other);
    ASSERT_TRUE(received.has_value()) << turn;
    EXPECT_EQ(received->meta.ecn, sent.ecn);
    EXPECT_EQ(received->bytes.size(), 600u);
  }
}

TEST_P(RoundTrip, what_icmp_says_of_a_closed_port_costs_no_later_datagram) {
  SendSockets senders(loopback(GetParam()));
  const UdpAddress alive = to_;
  to_.port = static_cast<uint16_t>(kBasePort + 255);  // nobody listens
  for (int i = 0; i < 8; ++i) EXPECT_EQ(senders.send(burst(1, 100, 100)).outcome, SendOutcome::kSent);
  to_ = alive;
  EXPECT_EQ(senders.send(burst(1, 100, 100)).outcome, SendOutcome::kSent);
  EXPECT_TRUE(wait_for(*receivers_).has_value());
}

TEST_P(RoundTrip, overflow_of_the_receive_buffer_is_reported_in_datagrams) {
  SendSockets senders(loopback(GetParam()));
  set_option(receivers_->fd(0), SOL_SOCKET, SO_RCVBUF, 4096);
  uint32_t sent = 0;
  for (; sent < 64; ++sent) ASSERT_EQ(senders.send(burst(1, 1000, 1000)).outcome, SendOutcome::kSent);
  uint64_t received = 0;
  while (receivers_->receive(0)) ++received;
  ASSERT_LT(received, sent);
  // The counter travels with the next datagram that finds room.
  ASSERT_EQ(senders.send(burst(1, 1000, 1000)).outcome, SendOutcome::kSent);
  const auto next = wait_for(*receivers_);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->overflow, sent - received);
}

INSTANTIATE_TEST_SUITE_P(Families, RoundTrip, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "v6" : "v4"; });

TEST(SendSockets, what_the_kernel_refuses_is_an_error_and_not_a_loss) {
  SendSockets senders(loopback(false));
  std::array<std::byte, 10> data{};
  const Slice slice{data.data(), data.size()};
  TxBurst burst;
  burst.to = {*parse_address("203.0.113.1"), 9};  // not reachable from 127.0.0.1; nothing leaves this host
  burst.segments = 1;
  burst.segment_bytes = burst.total_bytes = 10;
  burst.slices = {&slice, 1};
  const SendResult result = senders.send(burst);
  EXPECT_EQ(result.outcome, SendOutcome::kError);
  EXPECT_EQ(result.error, EINVAL);
  burst.to = {*parse_address("::1"), 9};
  EXPECT_EQ(senders.send(burst).error, EAFNOSUPPORT) << "other family than the local address";
  EXPECT_EQ(senders.counters().errors, 2u);
}

TEST(ReceiveSockets, each_opener_gets_a_slot_of_its_own_until_all_are_taken) {
  constexpr uint16_t kPortsToExhaust = 62000;  // not those of the other tests
  std::vector<ReceiveSockets> open;
  std::string error;
  while (error.empty()) {
    auto next = ReceiveSockets::open(loopback(false), kPortsToExhaust, 1 << 16);
    if (!next) {
      error = next.error();
      break;
    }
    if (!open.empty()) {
      ASSERT_GT(next->slot(), open.back().slot());
    }
    open.push_back(std::move(*next));
  }
  EXPECT_GE(open.size(), 2u);
  EXPECT_THAT(error, HasSubstr("all 256 slots are taken: UDP ports 62000 to 62255"));
  EXPECT_THAT(error, HasSubstr("MROCE_BASE_PORT"));
}

TEST(ReceiveSockets, a_slot_needs_its_port_on_every_address) {
  std::vector<LocalAddress> two = loopback(false);
  two.push_back(two[0]);
  two[1].gid = *parse_address("127.0.0.2");
  const auto only_second = ReceiveSockets::open({two[1]}, kBasePort, 1 << 16);
  ASSERT_TRUE(only_second.has_value());
  const auto both = ReceiveSockets::open(two, kBasePort, 1 << 16);
  ASSERT_TRUE(both.has_value());
  EXPECT_GT(both->slot(), only_second->slot());
}

TEST(ReceiveSockets, small_buffers_come_with_the_sysctl_to_set) {
  const auto sockets = ReceiveSockets::open(loopback(false), kBasePort, 8 << 20);
  ASSERT_TRUE(sockets.has_value());
  if (sockets->granted_bytes() < (1 << 20)) {
    EXPECT_THAT(sockets->hint(), HasSubstr("sysctl -w net.core.rmem_max=8388608"));
  } else {
    EXPECT_EQ(sockets->hint(), "");
  }
}

TEST(PathMtu, the_mtu_of_this_host_is_that_of_loopback_and_no_route_is_zero) {
  const Gid local = *parse_address("127.0.0.1");
  EXPECT_GE(path_mtu(local, local), 16384u);
  EXPECT_EQ(path_mtu(local, *parse_address("::1")), 0u);
  EXPECT_EQ(path_mtu(*parse_address("203.0.113.77"), local), 0u) << "not a local address";
}

TEST(Addresses, text_and_kernel_forms_round_trip) {
  for (const char* text : {"127.0.0.1", "192.0.2.255", "::1", "2001:db8::42", "fe80::1"}) {
    const auto gid = parse_address(text);
    ASSERT_TRUE(gid.has_value()) << text;
    EXPECT_EQ(to_string(*gid), text);
    const UdpAddress address{*gid, 4791};
    EXPECT_EQ(udp_address(socket_address(address, 3).storage), address);
  }
  EXPECT_EQ(*parse_address("fe80::1%lo"), *parse_address("fe80::1"));
  for (const char* text : {"", "127.0.0", "::g", "127.0.0.1/8", "localhost"}) {
    EXPECT_FALSE(parse_address(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace mroce::net
