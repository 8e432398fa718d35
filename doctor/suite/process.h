// Programs that run side by side, with what they print and with an end.
//
// Each is started in a process group of its own, its output goes to memory. Who is not done when its owner
// gives up is asked to end (so that a launcher can end what it started elsewhere), and killed with its group
// if it does not.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>

#include "doctor/suite/words.h"

namespace mroce::doctor {

using SuiteClock = std::chrono::steady_clock;

class SuiteProcess {
 public:
  explicit SuiteProcess(Words words) : words_(std::move(words)) {}
  ~SuiteProcess() { stop(); }
  SuiteProcess(const SuiteProcess&) = delete;
  SuiteProcess& operator=(const SuiteProcess&) = delete;

  bool start();                // false: `error` says why
  std::optional<int> ended();  // the exit status (128 + n for a signal), or nothing while it runs
  void stop();
  std::string output() const { return text_of(output_); }
  std::string errors() const { return text_of(errors_); }
  std::string last_words() const;  // the last line that it printed, for messages
  const Words& words() const { return words_; }
  const std::string& error() const { return error_; }

 private:
  static std::string text_of(int fd);
  [[noreturn]] void become(int failed);
  Words words_;
  std::string error_;
  pid_t pid_ = -1;
  int output_ = -1, errors_ = -1;
  std::optional<int> status_;
};

// While it lives, signals that would end us are waited for, together with the ends of children.
class SuiteSignals {
 public:
  SuiteSignals();
  ~SuiteSignals();
  SuiteSignals(const SuiteSignals&) = delete;
  SuiteSignals& operator=(const SuiteSignals&) = delete;
  // Until a child ends, a signal comes or this time is over. False: we are to end.
  bool pause(std::chrono::milliseconds at_most);
  int received() const { return received_; }

 private:
  sigset_t waited_{}, old_{};
  int received_ = 0;
};

}  // namespace mroce::doctor
