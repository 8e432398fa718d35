#include "doctor/suite/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace mroce::doctor {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTables =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 "
    "0 10 0\n"
    "   1: 0100007F:4853 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 "
    "0 10 0\n"
    "   2: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 1 1 "
    "0\n";

TEST(HasListener, sees_who_listens_and_not_who_is_connected) {
  EXPECT_TRUE(has_listener(kTables, 0x1F90));
  EXPECT_TRUE(has_listener(kTables, 22));
  EXPECT_FALSE(has_listener(kTables, 0x4853));
  EXPECT_FALSE(has_listener("", 22));
  EXPECT_FALSE(has_listener("0: a:0016\n0:\n", 22));
}

uint32_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(fd, generic, length), 0);
  EXPECT_EQ(::getsockname(fd, generic, &length), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

// Both hosts are this machine.
class SessionHere : public ::testing::Test {
 protected:
  SessionHere() {
    options_.hosts = {{"A", "127.0.0.1"}, {"B", "127.0.0.1"}};
    options_.mroce = "no-such-program";
    options_.limit_s = 20;
  }

  Step step(const std::string& server, const std::string& client) const {
    Flow flow;
    flow.port = port_;
    const std::string port = std::to_string(port_);
    flow.server = {"python3", "-c", "import socket,os\nport=" + port + "\n" + server};
    flow.client = {"python3", "-c", "import socket,sys\nport=" + port + "\n" + client};
    return {"bandwidth", {flow}};
  }

  const uint32_t port_ = free_port();
  SuiteOptions options_;
  SuiteSignals signals_;
  Session session_{options_, signals_};
};

constexpr const char* kListen = "s=socket.create_server(('127.0.0.1',port))\nprint(os.getpid(),flush=True)\n";

TEST_F(SessionHere, the_client_starts_once_the_server_listens) {
  std::vector<EndOutput> out;
  const Step both = step(std::string(kListen) + "c,_=s.accept()\nprint(c.recv(9).decode())",
                         "socket.create_connection(('127.0.0.1',port)).send(b'hello')\nprint('sent')");
  const auto done = session_.run(both, out);
  ASSERT_TRUE(done) << done.error();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_THAT(out[0].text, HasSubstr("hello"));
  EXPECT_EQ(out[1].text, "sent\n");
  EXPECT_TRUE(out[1].is_client);
}

TEST_F(SessionHere, a_client_that_fails_ends_its_server) {
  std::vector<EndOutput> out;
  const auto done =
      session_.run(step(std::string(kListen) + "s.accept()", "sys.exit('no such device')"), out);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error(), HasSubstr("the client on B ended with 1: no such device"));
  const int server = std::atoi(out.at(0).text.c_str());
  ASSERT_GT(server, 1);
  // Ended and collected by `timeout`, whose own end was waited for.
  EXPECT_NE(::kill(server, 0), 0);
}

TEST_F(SessionHere, a_server_that_ends_before_it_listens_is_quoted) {
  std::vector<EndOutput> out;
  const auto done = session_.run(step("raise SystemExit('no such device')", ""), out);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error(), HasSubstr("the server on A ended with 1 before it listened: no such device"));
}

TEST_F(SessionHere, a_step_that_hangs_is_ended_at_its_limit) {
  options_.limit_s = 2;
  std::vector<EndOutput> out;
  const auto begin = SuiteClock::now();
  const auto done =
      session_.run(step(std::string(kListen) + "s.accept()", "import time\ntime.sleep(1000)"), out);
  EXPECT_FALSE(done);
  EXPECT_LT(SuiteClock::now() - begin, std::chrono::seconds(15));
}

TEST_F(SessionHere, a_program_that_is_not_there_is_a_reason) {
  const auto answers = session_.on_hosts({0, 1}, {{"no-such-program"}, {"echo", "a b"}}, 10);
  EXPECT_THAT(answers[0].problem, HasSubstr("no-such-program"));
  EXPECT_EQ(answers[1].output, "a b\n");
  EXPECT_EQ(answers[1].problem, "");
}

TEST_F(SessionHere, a_host_without_mroce_has_a_bundle_that_says_so) {
  const auto bundles = session_.snapshots({1}, Phase::kEnd);
  ASSERT_EQ(bundles.size(), 1u);
  EXPECT_EQ(bundles[0].host, "B");
  const BundleSource& source = bundles[0].snapshots.at(0).sources.at(0);
  EXPECT_FALSE(source.text);
  EXPECT_THAT(source.missing, HasSubstr("ended with 127"));
}

TEST_F(SessionHere, a_launcher_that_is_not_there_is_a_reason) {
  options_.launcher = Launcher::parse("no-such-launcher {host}").value();
  const auto answers = session_.on_hosts({0}, {{"true"}}, 10);
  EXPECT_THAT(answers[0].problem, HasSubstr("no-such-launcher: No such file"));
}

TEST_F(SessionHere, a_launcher_with_a_shell_gets_what_its_shell_understands) {
  options_.launcher = Launcher::parse("sh -c").value();
  const auto answers = session_.on_hosts({0}, {{"printf", "%s|", "a b", "$HOME", "it's"}}, 10);
  EXPECT_EQ(answers[0].output, "a b|$HOME|it's|");
}

}  // namespace
}  // namespace mroce::doctor
