#include "doctor/collect/redact.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "doctor/collect/addresses.h"

namespace mroce::doctor {
namespace {

Redactor redactor() {
  return Redactor(Pseudonyms::of_phrase("test"));
}

Bundle bundle_with(std::string text) {
  Bundle bundle;
  bundle.host = "nodeA.cluster.example";
  bundle.boot_id = "5ddc4527-cb06-4e47-8f2f-2a4710a7a36e";
  bundle.snapshots.push_back({Phase::kStart, 1, {{"x", "", "eth0", std::move(text), ""}}});
  return bundle;
}

std::string redacted(const std::string& text) {
  Bundle bundle = bundle_with(text);
  Redactor by = redactor();
  by.learn(bundle);
  by.redact(bundle);
  return *bundle.snapshots[0].sources[0].text;
}

TEST(Siphash, agrees_with_its_authors_vector) {
  std::string input;
  for (char i = 0; i < 15; ++i) input += i;
  EXPECT_EQ(siphash({0x0706050403020100u, 0x0f0e0d0c0b0a0908u}, input), 0xa129ca6149be45e5u);
}

TEST(Pseudonyms, addresses_of_one_subnet_stay_in_one_and_none_fall_together) {
  Pseudonyms names = Pseudonyms::of_phrase("p");
  std::set<std::array<uint8_t, 4>> seen;
  std::set<uint8_t> third;
  for (int i = 0; i < 256; ++i) {
    std::array<uint8_t, 4> address{10, 1, 2, static_cast<uint8_t>(i)};
    names.ipv4(address);
    EXPECT_EQ(address[0], 10);
    third.insert(address[2]);
    seen.insert(address);
  }
  EXPECT_EQ(seen.size(), 256u);
  EXPECT_EQ(third.size(), 1u);
}

TEST(Pseudonyms, public_addresses_stay_public_and_apart) {
  Pseudonyms names = Pseudonyms::of_phrase("p");
  std::set<uint8_t> firsts;
  int publics = 0;
  for (int i = 1; i < 224; ++i) {
    if (i == 10 || i == 127 || i == 169 || i == 172 || i == 192) continue;
    std::array<uint8_t, 4> address{static_cast<uint8_t>(i), 1, 2, 3};
    names.ipv4(address);
    firsts.insert(address[0]);
    EXPECT_FALSE(address[0] == 10 || address[0] == 127 || address[0] >= 224 || address[0] == 0);
    ++publics;
  }
  EXPECT_EQ(firsts.size(), static_cast<size_t>(publics));
}

TEST(Addresses, are_found_in_every_way_of_writing) {
  const auto kind = [](std::string_view text) { return find_address(text, 0).kind; };
  EXPECT_EQ(kind("10.0.0.1 x"), AddressKind::kIpv4);
  EXPECT_EQ(kind("fe80:0000:0000:0000:0e42:a1ff:fe00:0012"), AddressKind::kIpv6);
  EXPECT_EQ(kind("fe80::e42:a1ff:fe00:12/64"), AddressKind::kIpv6);
  EXPECT_EQ(kind("::ffff:10.0.0.7"), AddressKind::kIpv6);
  EXPECT_EQ(kind("00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:07"), AddressKind::kIpv6);
  EXPECT_EQ(kind("0c:42:a1:00:00:12"), AddressKind::kMac);
  EXPECT_EQ(kind("0c42:a103:0000:0012"), AddressKind::kGuid);
  EXPECT_EQ(kind("0x0c42a10300000012"), AddressKind::kGuid);
  EXPECT_EQ(kind("5ddc4527-cb06-4e47-8f2f-2a4710a7a36e"), AddressKind::kUuid);
  for (const char* none :
       {"0000:3b:00.0", "1.2.3", "28.39.1002", "1.2.3.4.5", "256.1.1.1", "0x00010000", "12:30:45", "abc"})
    EXPECT_EQ(kind(none), AddressKind::kNone) << none;
}

TEST(Redact, an_address_has_one_replacement_alone_and_within_a_gid) {
  const std::string out = redacted("10.1.2.3\n::ffff:10.1.2.3\n0000:0000:0000:0000:0000:ffff:0a01:0203\n");
  const std::string address = out.substr(0, out.find('\n'));
  EXPECT_NE(address, "10.1.2.3");
  EXPECT_NE(out.find("::ffff:" + address + "\n"), std::string::npos) << out;
  const FoundAddress gid = find_address(out, out.find("\n0000:") + 1);
  ASSERT_EQ(gid.bytes.size(), 16u) << out;
  EXPECT_EQ(fmt::format("{}.{}.{}.{}", gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]), address);
}

TEST(Redact, a_link_local_gid_follows_its_mac_address_and_keeps_the_maker) {
  const std::string out = redacted("0c:42:a1:00:00:12 fe80:0000:0000:0000:0e42:a1ff:fe00:0012");
  const FoundAddress mac = find_address(out, 0);
  ASSERT_EQ(mac.kind, AddressKind::kMac);
  EXPECT_EQ(out.substr(0, 8), "0c:42:a1");
  EXPECT_NE(out.substr(0, 17), "0c:42:a1:00:00:12");
  const FoundAddress gid = find_address(out, 18);
  EXPECT_EQ(out.substr(18, 34), "fe80:0000:0000:0000:0e42:a1ff:fe" + out.substr(9, 2));
  EXPECT_EQ(gid.bytes[13], mac.bytes[3]);
  EXPECT_EQ(gid.bytes[15], mac.bytes[5]);
}

TEST(Redact, names_of_hosts_go_wherever_they_stand) {
  const std::string out =
      redacted("nodeA mlx5_0\nnodeA.cluster.example nodeB.cluster.example nodeA-ib0\n/home/alice/x");
  EXPECT_EQ(out.find("nodeA"), std::string::npos) << out;
  EXPECT_EQ(out.find("nodeB"), std::string::npos) << out;
  EXPECT_EQ(out.find("example"), std::string::npos) << out;
  EXPECT_EQ(out.find("alice"), std::string::npos) << out;
  EXPECT_NE(out.find("mlx5_0"), std::string::npos) << out;
}

TEST(Redact, names_are_learnt_from_tools_and_arguments) {
  Bundle bundle = bundle_with(
      "#  Rank  0 Group  0 Pid  42 on     gpu17 device  0 [0000:1b:00] X\ngpu18:42:43 [0] NCCL INFO NET\n");
  bundle.command =
      CommandRun{{"mpirun", "-H", "gpu19:8,gpu20", "ib_write_bw", "-F", "gpu21"}, 0, "to gpu21\n", 0, 0};
  Redactor by = redactor();
  by.learn(bundle);
  by.redact(bundle);
  const std::string all = to_json(bundle);
  for (const char* name : {"gpu17", "gpu18", "gpu19", "gpu20", "gpu21"})
    EXPECT_EQ(all.find(name), std::string::npos) << name;
  EXPECT_TRUE(bundle.redacted);
}

TEST(Redact, serial_numbers_and_identifiers_go_and_versions_and_counters_stay) {
  const std::string out = redacted(
      "    Serial Number                         : 1650523004231\n    GPU UUID : "
      "GPU-5ddc4527-cb06-4e47-8f2f-2a4710a7a36e\n"
      "firmware-version: 229.0.154.0\n     rx_prio3_pause: 12345\nbus-info: 0000:3b:00.0\n");
  EXPECT_EQ(out.find("1650523004231"), std::string::npos) << out;
  EXPECT_EQ(out.find("5ddc4527"), std::string::npos) << out;
  for (const char* kept :
       {"GPU-", "firmware-version: 229.0.154.0", "     rx_prio3_pause: 12345\n", "bus-info: 0000:3b:00.0"})
    EXPECT_NE(out.find(kept), std::string::npos) << kept << "\n" << out;
}

TEST(Redact, loopback_multicast_and_empty_addresses_stay) {
  for (const char* kept : {"127.0.0.1", "0.0.0.0", "255.255.255.0", "224.0.0.1", "::1", "ff:ff:ff:ff:ff:ff",
                           "00:00:00:00:00:00"})
    EXPECT_EQ(redacted(kept), kept);
}

TEST(Redact, the_same_phrase_gives_the_same_names_and_another_does_not) {
  Pseudonyms a = Pseudonyms::of_phrase("a"), again = Pseudonyms::of_phrase("a"),
             b = Pseudonyms::of_phrase("b");
  EXPECT_EQ(a.word("host", "n"), again.word("host", "n"));
  EXPECT_NE(a.word("host", "n"), b.word("host", "n"));
}

}  // namespace
}  // namespace mroce::doctor
