// Encryption over real sockets: two processes with one key file, and what a person reads when keys or
// settings do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "net/endpoint_test_support.h"

namespace mroce::net {
namespace {

using ::testing::HasSubstr;
constexpr uint32_t kBytes = 1 << 20;

class KeyFile {
 public:
  explicit KeyFile(char fill) : path_(::testing::TempDir() + "mroce-psk-" + fill + std::to_string(getpid())) {
    std::ofstream(path_) << std::string(64, fill) << "\n";
    EXPECT_EQ(chmod(path_.c_str(), 0600), 0);
  }
  ~KeyFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Overrides required(const KeyFile& key) {
  return {{"security", "require"}, {"key_file", key.path()}};
}

SendWr write_of(const Sge& from, uint64_t remote, uint32_t rkey) {
  SendWr wr;
  wr.opcode = Opcode::kWrite;
  wr.flags = send_flag::kSignaled;
  wr.sges = {&from, 1};
  wr.remote_addr = remote;
  wr.rkey = rkey;
  return wr;
}

// What one process tells the other through a pipe.
struct End {
  uint32_t number;
  uint32_t rkey;
  uint64_t address;
};
End tell(Side& side, const int out[2], const int in[2]) {
  const End own{side.number(), side.mr.rkey, side.address(0)};
  End other{};
  EXPECT_EQ(write(out[1], &own, sizeof own), static_cast<ssize_t>(sizeof own));
  EXPECT_EQ(read(in[0], &other, sizeof other), static_cast<ssize_t>(sizeof other));
  return other;
}

// The child: writes a pattern to the parent and waits for its completion. 0 if all is well.
int child(const Overrides& overrides, const int out[2], const int in[2]) {
  Side side(loopback_settings(overrides), kBytes);
  if (!side.endpoint) return 1;
  const End parent = tell(side, out, in);
  side.connect(side.endpoint->gids()[0].gid, parent.number);
  fill(side.bytes(), kBytes, 77);
  const Sge from = side.sge(0, kBytes);
  side.post_send(write_of(from, parent.address, parent.rkey));
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (side.completed.empty() && std::chrono::steady_clock::now() < limit) side.poll();
  if (side.completed.size() != 1 || ::testing::Test::HasFailure()) return 2;
  const auto stats = side.endpoint->inspect([](const Engine& engine) { return engine.connection_stats(); });
  if (stats.size() != 1 || stats[0].security != 2) return 3;
  side.endpoint->close();
  return 0;
}

TEST(EndpointSecurity, two_processes_with_one_key_file_exchange_encrypted_data) {
  const KeyFile key('5');
  int down[2], up[2];
  ASSERT_EQ(pipe(down), 0);
  ASSERT_EQ(pipe(up), 0);
  const pid_t pid = fork();  // before there is an endpoint or a thread
  ASSERT_GE(pid, 0);
  if (pid == 0) _exit(child(required(key), up, down));
  Side side(loopback_settings(required(key)), kBytes);
  ASSERT_TRUE(side.endpoint);
  const End other = tell(side, down, up);
  side.connect(side.endpoint->gids()[0].gid, other.number);
  int status = -1;
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (waitpid(pid, &status, WNOHANG) == 0 && std::chrono::steady_clock::now() < limit) side.poll();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::vector<uint8_t> expected(kBytes);
  fill(expected.data(), kBytes, 77);
  EXPECT_EQ(std::memcmp(side.bytes(), expected.data(), kBytes), 0);
  const auto json = nlohmann::json::parse(side.endpoint->stats_json());
  EXPECT_EQ(json["connections"][0]["security"], "aes-gcm");
  EXPECT_EQ(json["settings"]["security"]["value"], "require");
  for (const int fd : {down[0], down[1], up[0], up[1]}) close(fd);
}

TEST(EndpointSecurity, carries_data_over_a_bad_network) {
  const KeyFile key('a');
  Overrides overrides = required(key);
  overrides.push_back({"impair", "loss=5%,reorder=2%:200us,duplicate=2%"});
  EndpointPair pair(overrides);
  ASSERT_TRUE(pair.a.endpoint && pair.b.endpoint);
  fill(pair.a.bytes(), kBytes, 3);
  const Sge from = pair.a.sge(0, kBytes);
  pair.a.post_send(write_of(from, pair.b.address(kBytes), pair.b.mr.rkey));
  ASSERT_TRUE(pair.poll_until([&] { return pair.a.completed.size() == 1; }));
  EXPECT_EQ(std::memcmp(pair.a.bytes(), pair.b.bytes() + kBytes, kBytes), 0);
}

struct Misfit {
  const char* name;
  bool same_key;
  const char* policy_of_b;
  const char* sentence;
};
class Misfits : public ::testing::TestWithParam<Misfit> {};

TEST_P(Misfits, are_refused_with_a_sentence) {
  const KeyFile key_a('1'), key_b('2');
  Overrides of_a = required(key_a), of_b = required(GetParam().same_key ? key_a : key_b);
  of_b[0].second = GetParam().policy_of_b;
  if (of_b[0].second == "off") of_b[1].second = "";
  of_a.push_back({"log", "warn"});
  of_b.push_back({"log", "warn"});
  ::testing::internal::CaptureStderr();
  {
    Side a(loopback_settings(of_a), 4096), b(loopback_settings(of_b), 4096);
    ASSERT_TRUE(a.endpoint && b.endpoint);
    a.connect(a.endpoint->gids()[0].gid, b.number());
    const Sge from = a.sge(0, 100);
    a.post_send(write_of(from, b.address(0), b.mr.rkey));
    std::array<Wc, 1> completion;
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    uint32_t count = 0;
    while (count == 0 && std::chrono::steady_clock::now() < limit)
      count = a.endpoint->poll_cq(a.cq, completion);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(completion[0].status, WcStatus::kRetryExcErr);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    all, Misfits,
    ::testing::Values(Misfit{"another_key", false, "require", "give both sides the same key_file"},
                      Misfit{"no_security", true, "off", "set security to the same on both sides"}),
    [](const auto& param) { return param.param.name; });

TEST(EndpointSecurity, a_key_file_that_others_can_read_is_refused_at_once) {
  const KeyFile key('c');
  ASSERT_EQ(chmod(key.path().c_str(), 0644), 0);
  CountingSink sink;
  const auto opened = Endpoint::open(loopback_settings(required(key)), sink);
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error(), HasSubstr("chmod 600"));
}

TEST(EndpointSecurity, without_a_key_file_says_that_nobody_is_authenticated) {
  ::testing::internal::CaptureStderr();
  CountingSink sink;
  Overrides overrides = {{"security", "require"}, {"log", "warn"}};
  EXPECT_TRUE(Endpoint::open(loopback_settings(overrides), sink).has_value());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("peers are not authenticated"));
}

}  // namespace
}  // namespace mroce::net
