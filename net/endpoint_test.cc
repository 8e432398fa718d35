#include "net/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "net/endpoint_test_support.h"

namespace mroce::net {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Endpoint> open_one(EventSink& sink, const Overrides& overrides = {}) {
  auto opened = Endpoint::open(loopback_settings(overrides), sink);
  EXPECT_TRUE(opened.has_value()) << opened.error();
  return std::move(*opened);
}

Result<PdHandle> alloc_pd(Endpoint& endpoint) {
  return endpoint.command([](Engine& engine, Time) { return engine.alloc_pd(); });
}

TEST(Endpoint, two_of_one_process_take_different_slots) {
  CountingSink sink;
  const auto first = open_one(sink);
  const auto second = open_one(sink);
  EXPECT_NE(first->slot(), second->slot());
  ASSERT_EQ(first->gids().size(), 1u);
  EXPECT_EQ(first->gids()[0].interface, "lo");
  EXPECT_EQ(first->gids()[0].ifindex, 1u);
  const uint8_t slot = second->inspect([](const Engine& engine) { return engine.config().slot; });
  EXPECT_EQ(slot, second->slot());
}

TEST(Endpoint, an_address_that_is_not_local_is_an_error_with_a_hint) {
  CountingSink sink;
  const auto opened = Endpoint::open(loopback_settings({{"addresses", "203.0.113.1"}}), sink);
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error(), HasSubstr("203.0.113.1 is not an address of this host"));
}

TEST(Endpoint, a_trace_that_cannot_be_written_is_an_error) {
  CountingSink sink;
  const auto opened = Endpoint::open(loopback_settings({{"trace", "/no/such/folder/%p.pcapng"}}), sink);
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error(), HasSubstr("/no/such/folder/" + std::to_string(getpid()) + ".pcapng"));
}

TEST(Endpoint, a_closed_one_refuses_commands_and_closes_twice) {
  CountingSink sink;
  const auto endpoint = open_one(sink);
  EXPECT_TRUE(alloc_pd(*endpoint).has_value());
  endpoint->close();
  endpoint->close();
  EXPECT_TRUE(endpoint->gone());
  EXPECT_EQ(alloc_pd(*endpoint).error(), Errc::kNoDevice);
  EXPECT_EQ(endpoint->inspect([](const Engine& engine) { return engine.config().slot; }), 0u);
  std::array<Wc, 1> out;
  EXPECT_EQ(endpoint->poll_cq(CqHandle{1}, out), 0u);
  endpoint->progress();
}

TEST(Endpoint, a_closed_one_gives_its_slot_back) {
  CountingSink sink;
  const Overrides own_ports = {{"base_port", "62768"}};
  auto first = open_one(sink, own_ports);
  const uint8_t slot = first->slot();
  first.reset();
  EXPECT_EQ(open_one(sink, own_ports)->slot(), slot);
}

TEST(Endpoint, the_statistics_file_is_json_of_the_schema_and_carries_the_process_id) {
  CountingSink sink;
  const std::string folder = ::testing::TempDir();
  open_one(sink, {{"stats_file", folder + "mroce-stats-%p.json"}, {"impair", "loss=1%"}})->close();
  const std::string path = folder + "mroce-stats-" + std::to_string(getpid()) + ".json";
  std::ifstream file(path);
  ASSERT_TRUE(file.good());
  const auto json = nlohmann::json::parse(file);
  unlink(path.c_str());
  EXPECT_EQ(json.at("schema"), "mroce-stats-1");
  EXPECT_EQ(json.at("pid"), getpid());
  EXPECT_EQ(json.at("settings").at("impair").at("origin"), "flag --impair");
  EXPECT_EQ(json.at("counters").at("rx_datagrams"), 0);
  EXPECT_EQ(json.at("impairment").at("out").at("offered"), 0);
  EXPECT_TRUE(json.at("connections").is_array());
}

TEST(Endpoint, statistics_can_be_read_while_the_program_runs) {
  CountingSink sink;
  const std::string path = ::testing::TempDir() + "mroce-live-stats.json";
  unlink(path.c_str());
  const auto endpoint = open_one(sink, {{"stats_file", path}, {"stats_interval", "1"}});
  nlohmann::json json;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!json.is_object() && std::chrono::steady_clock::now() < limit) {
    std::ifstream file(path);
    if (file.good()) json = nlohmann::json::parse(file);
  }
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.at("schema"), "mroce-stats-1");
  endpoint->close();
  unlink(path.c_str());
}

TEST(Endpoint, a_forked_child_is_without_device_and_the_parent_goes_on) {
  EndpointPair pair;
  ASSERT_TRUE(pair.a.endpoint && pair.b.endpoint);
  const pid_t child = fork();
  if (child == 0) {
    pair.a.endpoint->abandon_after_fork();
    pair.b.endpoint->abandon_after_fork();
    std::array<Wc, 1> out;
    const bool dead = pair.a.endpoint->gone() && alloc_pd(*pair.a.endpoint).error() == Errc::kNoDevice &&
                      pair.b.endpoint->poll_cq(pair.b.cq, out) == 0;
    pair.a.endpoint.reset();  // must neither hang nor crash nor say goodbye
    _exit(dead ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const Sge from = pair.a.sge(0, 1000);
  fill(pair.a.bytes(), 1000, 3);
  pair.a.post_send({.opcode = Opcode::kWrite,
                    .flags = send_flag::kSignaled,
                    .sges = {&from, 1},
                    .remote_addr = pair.b.address(0),
                    .rkey = pair.b.mr.rkey});
  ASSERT_TRUE(pair.poll_until([&] { return !pair.a.completed.empty(); }));
  EXPECT_EQ(std::memcmp(pair.a.bytes(), pair.b.bytes(), 1000), 0);
}

TEST(Endpoint, a_child_that_lives_on_does_not_keep_the_slot_taken) {
  CountingSink sink;
  const Overrides own_ports = {{"base_port", "63024"}};
  auto endpoint = open_one(sink, own_ports);
  const uint8_t slot = endpoint->slot();
  int ready[2];
  int go_on[2];
  ASSERT_TRUE(pipe(ready) == 0 && pipe(go_on) == 0);
  const pid_t child = fork();
  char byte = 'x';
  if (child == 0) {
    endpoint->abandon_after_fork();
    const bool told = write(ready[1], &byte, 1) == 1 && read(go_on[0], &byte, 1) == 1;
    _exit(told ? 0 : 1);
  }
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  endpoint.reset();
  EXPECT_EQ(open_one(sink, own_ports)->slot(), slot);
  ASSERT_EQ(write(go_on[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {ready[0], ready[1], go_on[0], go_on[1]}) ::close(fd);
}

}  // namespace
}  // namespace mroce::net
