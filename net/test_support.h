// What several tests of net/ share.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

namespace mroce::net {

inline constexpr int kNoNamespace = 77;

// Runs `body` in a child process that has a network of its own and, there, all rights; answers its exit code,
// or kNoNamespace where the system allows none.
inline int in_own_network(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string user = std::to_string(geteuid());
    const std::string group = std::to_string(getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(kNoNamespace);
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " + user + " 1";  // programs that it starts keep its rights
    std::ofstream("/proc/self/gid_map") << "0 " + group + " 1";
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// CI sets this: there a machine that cannot do what a test needs is a failure.
inline bool must_be_complete() {
  const char* value = std::getenv("MROCE_TEST_COMPLETE");
  return value != nullptr && *value != '\0';
}

}  // namespace mroce::net

// As GTEST_SKIP, for what a machine cannot do; a failure where every test has to run.
#define MROCE_CANNOT(why)                                                                    \
  do {                                                                                       \
    if (mroce::net::must_be_complete()) FAIL() << why << ", but MROCE_TEST_COMPLETE is set"; \
    GTEST_SKIP() << why;                                                                     \
  } while (false)
