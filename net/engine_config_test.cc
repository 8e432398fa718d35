#include "net/engine_config.h"

#include <gtest/gtest.h>

#include "net/sockets.h"

namespace mroce::net {
namespace {

TEST(EngineConfigFromSettings, takes_settings_and_surroundings_over) {
  Settings settings;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"paths", "7"},
                                                                                    {"planes", "2"},
                                                                                    {"max_payload", "1408"},
                                                                                    {"window", "256K"},
                                                                                    {"base_port", "50000"},
                                                                                    {"key_update", "1K"},
                                                                                    {"ecn", "0"},
                                                                                    {"relaxed", "1"}}) {
    ASSERT_TRUE(settings.set(name, value, "flag --" + name).has_value());
  }
  EngineSurroundings surroundings;
  surroundings.addresses.push_back({*parse_address("127.0.0.1"), 104, "lo", 1, 65536, true});
  surroundings.addresses.push_back({*parse_address("192.0.2.1"), 120, "eth0", 2, 1400, false});
  surroundings.slot = 9;
  surroundings.receive_buffer_bytes = uint64_t{1} << 40;
  surroundings.seed = 77;
  const EngineConfig config = engine_config(settings, surroundings);
  EXPECT_EQ(config.max_paths, 7u);
  EXPECT_EQ(config.max_planes, 2u);
  EXPECT_EQ(config.max_payload, 1408u);
  EXPECT_EQ(config.window_bytes, 256u * 1024);
  EXPECT_EQ(config.base_port, 50000u);
  EXPECT_EQ(config.key_update_packets, 1024u);
  EXPECT_EQ(config.slot, 9u);
  EXPECT_EQ(config.seed, 77u);
  EXPECT_FALSE(config.ecn);
  EXPECT_FALSE(config.tail_hold);
  EXPECT_EQ(config.receive_buffer_bytes, UINT32_MAX) << "saturates";
  ASSERT_EQ(config.ports.size(), 2u);
  EXPECT_EQ(config.ports[1].address, *parse_address("192.0.2.1"));
  EXPECT_EQ(config.ports[1].prefix_bits, 120u);
  EXPECT_EQ(config.ports[1].link_mtu, 1400u);
  EXPECT_FALSE(config.ports[1].up);
}

TEST(EngineConfigFromSettings, a_set_seed_is_used_and_an_unset_one_differs_each_time) {
  Settings settings;
  EXPECT_NE(choose_seed(settings), choose_seed(settings));
  ASSERT_TRUE(settings.set("seed", "42", "flag --seed").has_value());
  EXPECT_EQ(choose_seed(settings), 42u);
  EXPECT_NE(random_endpoint_id(), random_endpoint_id());
}

}  // namespace
}  // namespace mroce::net
