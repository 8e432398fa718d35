#include "comply/control_session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "comply/control_server.h"

namespace mroce::comply {
namespace {

using nlohmann::json;

json ask(ControlSession& session, const std::string& line) {
  return json::parse(session.answer(line));
}

struct Session : testing::Test {
  ControlSession session{*net::parse_address("127.0.0.1")};
};

using ComplyControlSession = Session;

TEST_F(ComplyControlSession, LinesThatAreNoRequestsAreAnsweredWithAnError) {
  const std::string deep(60000, '[');
  for (const std::string& line :
       {std::string(), std::string("x"), std::string("[]"), std::string("42"), std::string("{\"cmd\":7}"),
        deep, std::string("{\"cmd\":\"\xff\xfe\"}"), std::string(40000, '{')}) {
    const json answer = ask(session, line);
    EXPECT_EQ(answer.at("ok"), false);
    EXPECT_FALSE(answer.at("error").get<std::string>().empty());
  }
}

TEST_F(ComplyControlSession, AnUnknownCommandIsUnsupported) {
  EXPECT_EQ(ask(session, R"({"cmd":"fly"})").at("unsupported"), true);
}

TEST_F(ComplyControlSession, HelloListsFeaturesWithoutAnEndpoint) {
  const json answer = ask(session, R"({"cmd":"hello","protocol":1})");
  EXPECT_EQ(answer.at("ok"), true);
  EXPECT_FALSE(answer.at("features").empty());
  EXPECT_EQ(ask(session, R"({"cmd":"hello","protocol":2})").at("ok"), false);
}

TEST_F(ComplyControlSession, ALimitOutOfRangeIsAnErrorAndAnUnknownOneIsUnsupported) {
  const json out_of_range = ask(session, R"({"cmd":"start","limits":{"max_paths":4000000}})");
  EXPECT_EQ(out_of_range.at("ok"), false);
  EXPECT_FALSE(out_of_range.contains("unsupported"));
  EXPECT_EQ(ask(session, R"({"cmd":"start","limits":{"wings":2}})").at("unsupported"), true);
}

TEST_F(ComplyControlSession, NothingWorksBeforeStart) {
  for (const char* line :
       {R"({"cmd":"create_mr","length":100})", R"({"cmd":"create_qp","max_send_wr":1,"max_recv_wr":1})",
        R"({"cmd":"stop"})", R"({"cmd":"poll","qp":1})", R"({"cmd":"read_memory","mr":1})"})
    EXPECT_EQ(ask(session, line).at("ok"), false) << line;
}

TEST_F(ComplyControlSession, MemoryIsReadAndWrittenWithinItsRegion) {
  ASSERT_EQ(ask(session, R"({"cmd":"start"})").at("ok"), true);
  const json mr = ask(session, R"({"cmd":"create_mr","length":100,"access":["local_write"]})");
  ASSERT_EQ(mr.at("ok"), true);
  EXPECT_EQ(ask(session, R"({"cmd":"write_memory","mr":1,"offset":98,"bytes":"0aFf"})").at("ok"), true);
  EXPECT_EQ(ask(session, R"({"cmd":"read_memory","mr":1,"offset":97,"length":3})").at("bytes"), "000aff");
  for (const char* line : {R"({"cmd":"write_memory","mr":1,"offset":99,"bytes":"0aff"})",
                           R"({"cmd":"write_memory","mr":1,"offset":0,"bytes":"0g"})",
                           R"({"cmd":"write_memory","mr":1,"offset":-1,"bytes":"00"})",
                           R"({"cmd":"read_memory","mr":1,"offset":0,"length":101})",
                           R"({"cmd":"read_memory","mr":1,"offset":101,"length":0})",
                           R"({"cmd":"read_memory","mr":9,"offset":0,"length":1})",
                           R"({"cmd":"read_memory","mr":1,"offset":1e30,"length":1})",
                           R"({"cmd":"create_mr","length":99999999999})",
                           R"({"cmd":"create_mr","length":1,"access":["everything"]})", R"({"cmd":"start"})"})
    EXPECT_EQ(ask(session, line).at("ok"), false) << line;
}

TEST_F(ComplyControlSession, RegionsHaveABoundInTotal) {
  ASSERT_EQ(ask(session, R"({"cmd":"start"})").at("ok"), true);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(ask(session, R"({"cmd":"create_mr","length":67108864})").at("ok"), true);
  EXPECT_EQ(ask(session, R"({"cmd":"create_mr","length":1})").at("error"),
            "too many bytes in memory regions");
  EXPECT_EQ(ask(session, R"({"cmd":"destroy_mr","mr":1})").at("ok"), true);
  EXPECT_EQ(ask(session, R"({"cmd":"create_mr","length":1})").at("ok"), false) << "its bytes stay";
}

TEST_F(ComplyControlSession, LimitsWithoutASettingAreUnsupported) {
  EXPECT_EQ(ask(session, R"({"cmd":"start","limits":{"cpsn_window":64}})").at("unsupported"), true);
  EXPECT_EQ(ask(session, R"({"cmd":"start","limits":[]})").at("ok"), false);
  EXPECT_EQ(ask(session, R"({"cmd":"start","mode":1})").at("unsupported"), true);
  EXPECT_EQ(ask(session, R"({"cmd":"start","mode":2,"psk":"00"})").at("ok"), false);
  EXPECT_EQ(ask(session, R"({"cmd":"start","psk":"00"})").at("ok"), false);
}

TEST_F(ComplyControlSession, TheLimitOfPacketsOfAKeyHasItsSetting) {
  const json too_small = ask(session, R"({"cmd":"start","limits":{"key_update_packets":1}})");
  EXPECT_EQ(too_small.at("ok"), false);
  EXPECT_FALSE(too_small.contains("unsupported"));
  EXPECT_EQ(ask(session, R"({"cmd":"start","limits":{"key_update_packets":"many"}})").at("ok"), false);
  EXPECT_EQ(ask(session, R"({"cmd":"start","limits":{"key_max_packets":500}})").at("unsupported"), true);
  EXPECT_EQ(ask(session, R"({"cmd":"start","mode":2,"limits":{"key_update_packets":16}})").at("ok"), true);
}

// ---- lines

struct Ends {
  Ends() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), 0); }
  std::array<int, 2> fds{};
};

Deadline soon() {
  return Deadline::clock::now() + std::chrono::seconds(5);
}

TEST(ComplyLines, ComeOneByOneHoweverTheyAreCut) {
  Ends ends;
  LineSocket a{net::FileDescriptor(ends.fds[0])}, b{net::FileDescriptor(ends.fds[1])};
  ASSERT_TRUE(a.write_line("one\ntwo", soon()));
  EXPECT_EQ(b.read_line(soon()).value(), "one");
  EXPECT_EQ(b.read_line(soon()).value(), "two");
}

TEST(ComplyLines, ALineWithoutEndIsRefusedAtItsBound) {
  Ends ends;
  LineSocket b{net::FileDescriptor(ends.fds[1])};
  std::thread writer([fd = ends.fds[0]] {
    const std::string piece(4096, 'a');
    for (int i = 0; i < 1000; ++i) {
      if (::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
    }
  });
  const auto line = b.read_line(soon());
  EXPECT_FALSE(line);
  EXPECT_NE(line.error().find("64 KiB"), std::string::npos);
  ::shutdown(ends.fds[0], SHUT_RDWR);
  writer.join();
  net::FileDescriptor close_it(ends.fds[0]);
}

TEST(ComplyLines, WaitingHasAnEnd) {
  Ends ends;
  LineSocket a{net::FileDescriptor(ends.fds[0])}, b{net::FileDescriptor(ends.fds[1])};
  EXPECT_FALSE(b.read_line(Deadline::clock::now() + std::chrono::milliseconds(20)));
}

TEST(ComplyServer, ASilentClientDoesNotKeepTheNextOneOut) {
  const auto server = ServerProcess::start(std::chrono::milliseconds(100));
  ASSERT_TRUE(server) << server.error();
  auto silent = connect_tcp(server->control(), soon());
  ASSERT_TRUE(silent);
  auto next = connect_tcp(server->control(), soon());
  ASSERT_TRUE(next);
  LineSocket first(std::move(*silent)), second(std::move(*next));
  ASSERT_TRUE(second.write_line(R"({"cmd":"hello","protocol":1})", soon()));
  const auto answer = second.read_line(soon());
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_EQ(json::parse(*answer).at("ok"), true);
  EXPECT_FALSE(first.read_line(soon()));
}

TEST(ComplyServer, AClientThatWaitsAloneIsKept) {
  const auto server = ServerProcess::start(std::chrono::milliseconds(5));
  ASSERT_TRUE(server) << server.error();
  auto fd = connect_tcp(server->control(), soon());
  ASSERT_TRUE(fd);
  LineSocket client(std::move(*fd));
  EXPECT_FALSE(client.read_line(Deadline::clock::now() + std::chrono::milliseconds(50)));
  ASSERT_TRUE(client.write_line(R"({"cmd":"hello","protocol":1})", soon()));
  EXPECT_TRUE(client.read_line(soon()));
}

TEST(ComplyLines, AddressesWithPorts) {
  EXPECT_EQ(parse_host_port("127.0.0.1:80")->port, 80);
  EXPECT_EQ(parse_host_port("[::1]:65535")->port, 65535);
  for (const char* text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:1x", "host:1"})
    EXPECT_FALSE(parse_host_port(text)) << text;
}

TEST(ComplyValues, WideNumbersAreHexadecimal) {
  const json value = {{"a", "0xffffffffffffffff"},  {"b", "0x"}, {"c", "12"},
                      {"d", "0x1ffffffffffffffff"}, {"e", 5},    {"f", "0xg"}};
  EXPECT_EQ(wide_number_of(value, "a"), UINT64_MAX);
  for (const char* key : {"b", "c", "d", "e", "f", "none"}) EXPECT_FALSE(wide_number_of(value, key)) << key;
}

}  // namespace
}  // namespace mroce::comply
