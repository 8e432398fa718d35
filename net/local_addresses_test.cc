#include "net/local_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/sockets.h"

namespace mroce::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LocalAddress address(const char* text, uint32_t ifindex) {
  LocalAddress result;
  result.gid = *parse_address(text);
  result.ifindex = ifindex;
  return result;
}

std::vector<std::string> names(const std::vector<LocalAddress>& addresses) {
  std::vector<std::string> result;
  for (const LocalAddress& a : addresses) result.push_back(to_string(a.gid));
  return result;
}

TEST(LocalAddresses, gid_order_is_ipv4_loopback_global_link_local_and_ipv6_loopback) {
  std::vector<LocalAddress> all = {address("::1", 1),          address("fe80::2", 2),
                                   address("2001:db8::1", 3),  address("127.0.0.1", 1),
                                   address("192.0.2.9", 5),    address("198.51.100.1", 2),
                                   address("198.51.100.2", 2), address("2001:db8::2", 2)};
  sort_in_gid_order(all);
  EXPECT_THAT(names(all), ElementsAre("198.51.100.1", "198.51.100.2", "192.0.2.9", "127.0.0.1", "2001:db8::2",
                                      "2001:db8::1", "fe80::2", "::1"));
}

TEST(LocalAddresses, a_selection_keeps_its_own_order) {
  const std::vector<LocalAddress> all = {address("192.0.2.1", 2), address("127.0.0.1", 1), address("::1", 1)};
  const auto selected = select_addresses(all, "::1, 192.0.2.1");
  ASSERT_TRUE(selected.has_value()) << selected.error();
  EXPECT_THAT(names(*selected), ElementsAre("::1", "192.0.2.1"));
}

TEST(LocalAddresses, a_foreign_address_is_refused_and_the_local_ones_are_named) {
  const std::vector<LocalAddress> all = {address("192.0.2.1", 2), address("127.0.0.1", 1)};
  EXPECT_EQ(
      select_addresses(all, "203.0.113.5").error(),
      "addresses: 203.0.113.5 is not an address of this host that is up; there are 192.0.2.1, 127.0.0.1");
  EXPECT_THAT(select_addresses(all, "127.0.0.1,127.0.0.1").error(), HasSubstr("named twice"));
}

TEST(LocalAddresses, loopback_of_this_host_is_found_with_its_prefix_mtu_and_interface) {
  const auto found = find_local_addresses("127.0.0.1");
  ASSERT_TRUE(found.has_value()) << found.error();
  ASSERT_EQ(found->size(), 1u);
  const LocalAddress& loopback = found->front();
  EXPECT_EQ(loopback.prefix_bits, 96u + 8);
  EXPECT_EQ(loopback.interface, "lo");
  EXPECT_EQ(loopback.ifindex, 1u);
  EXPECT_GE(loopback.link_mtu, 16384u);
  EXPECT_TRUE(loopback.up);
}

TEST(LocalAddresses, all_addresses_of_this_host_are_distinct_and_in_gid_order) {
  auto found = find_local_addresses("");
  ASSERT_TRUE(found.has_value()) << found.error();
  EXPECT_LE(found->size(), kMaxLocalAddresses);
  auto sorted = *found;
  sort_in_gid_order(sorted);
  EXPECT_EQ(names(sorted), names(*found));
  for (size_t i = 0; i < found->size(); ++i) {
    EXPECT_NE((*found)[i].ifindex, 0u);
    for (size_t j = 0; j < i; ++j) EXPECT_NE((*found)[i].gid, (*found)[j].gid);
  }
}

}  // namespace
}  // namespace mroce::net
