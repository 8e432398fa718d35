#include "cli/process_pair.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>

#include "net/sockets.h"

namespace mroce::cli {
namespace {

using net::FileDescriptor;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

struct SocketPair {
  FileDescriptor one;
  FileDescriptor other;
};

std::optional<SocketPair> socket_pair() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) return std::nullopt;
  return SocketPair{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

void pin(int core) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<size_t>(core), &cpus);
  ::sched_setaffinity(0, sizeof cpus, &cpus);
}

[[noreturn]] void play(const Role& role, int channel_fd, int result_fd, int core) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(core);
  json result;
  try {
    Channel channel(channel_fd);
    result = role(channel);
  } catch (const std::exception& error) {
    result = {{"error", error.what()}};
  }
  write_all(result_fd, result.dump() + "\n");
  ::_exit(0);
}

// A child and where its result comes from.
struct Player {
  pid_t pid = -1;
  FileDescriptor result;
  std::string text;
  bool done = false;
};

void read_result(Player& player) {
  std::array<char, 65536> part{};
  const ssize_t length = ::recv(player.result.get(), part.data(), part.size(), 0);
  if (length > 0) player.text.append(part.data(), static_cast<size_t>(length));
  if (length == 0 || (length < 0 && errno != EINTR)) player.done = true;
}

// False when `limit` is over.
bool read_results(std::array<Player, 2>& players, Clock::time_point limit) {
  while (!players[0].done || !players[1].done) {
    std::array<pollfd, 2> waiting{};
    for (size_t i = 0; i < 2; ++i) waiting[i] = {players[i].done ? -1 : players[i].result.get(), POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
    if (left <= 0) return false;
    ::poll(waiting.data(), waiting.size(), static_cast<int>(left));
    for (size_t i = 0; i < 2; ++i) {
      if (waiting[i].revents != 0) read_result(players[i]);
    }
  }
  return true;
}

Outcome<json> result_of(const Player& player, const char* name) {
  json value = json::parse(player.text, nullptr, false);
  if (value.is_discarded()) {
    return failure(kInternal, fmt::format("the {} process ended without a result", name),
                   "this is a bug of mroce");
  }
  if (value.is_object() && value.contains("error")) {
    return failure(kEnvironment, fmt::format("{}: {}", name, value["error"].get<std::string>()), "");
  }
  return value;
}

}  // namespace

void Channel::send(const json& value) {
  if (!write_all(fd_, value.dump() + "\n")) throw RoleFailed("the other process has gone");
}

json Channel::receive() {
  size_t end = 0;
  while ((end = unread_.find('\n')) == std::string::npos) {
    std::array<char, 4096> part{};
    const ssize_t length = ::recv(fd_, part.data(), part.size(), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) throw RoleFailed("the other process has gone");
    unread_.append(part.data(), static_cast<size_t>(length));
  }
  json value = json::parse(unread_.substr(0, end), nullptr, false);
  unread_.erase(0, end + 1);
  return value;
}

std::vector<int> usable_cores() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &cpus)) cores.push_back(core);
  }
  return cores;
}

Outcome<PairResult> run_pair(const Role& first, const Role& second, std::chrono::seconds limit) {
  auto channel = socket_pair();
  std::array<std::optional<SocketPair>, 2> results{socket_pair(), socket_pair()};
  if (!channel || !results[0] || !results[1]) {
    return failure(kEnvironment, fmt::format("no socket pair: {}", std::strerror(errno)), "raise ulimit -n");
  }
  const std::vector<int> cores = usable_cores();
  std::array<Player, 2> players;
  for (size_t i = 0; i < 2; ++i) {
    const Role& role = i == 0 ? first : second;
    FileDescriptor& own = i == 0 ? channel->one : channel->other;
    FileDescriptor& others = i == 0 ? channel->other : channel->one;
    players[i].pid = ::fork();
    if (players[i].pid == 0) {
      others.reset();  // so that the end of the other process shows
      play(role, own.get(), results[i]->other.get(), cores[i % cores.size()]);
    }
    own.reset();
    results[i]->other.reset();
    players[i].result = std::move(results[i]->one);
    if (players[i].pid < 0) players[i].done = true;
  }
  const bool in_time = read_results(players, Clock::now() + limit);
  for (const Player& player : players) {
    if (player.pid <= 0) continue;
    if (!in_time) ::kill(player.pid, SIGKILL);
    ::waitpid(player.pid, nullptr, 0);
  }
  if (!in_time)
    return failure(kInternal, fmt::format("a measurement took more than {} s", limit.count()), "");
  auto one = result_of(players[0], "first");
  auto other = result_of(players[1], "second");
  if (!one) return tl::unexpected(one.error());
  if (!other) return tl::unexpected(other.error());
  return PairResult{std::move(*one), std::move(*other)};
}

}  // namespace mroce::cli
