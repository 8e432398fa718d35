// mroce doctor run: a snapshot, a command with samples beside it, a snapshot, and what they say.
//
// One thread: it waits for what the command prints, for its end and for signals, all as descriptors. The
// samples are taken by a process of their own (doctor/collect/sampler.h).
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "cli/device.h"
#include "cli/doctor.h"
#include "cli/finite_range.h"
#include "cli/launch.h"
#include "cli/record.h"
#include "cli/stats.h"
#include "cli/terminal.h"
#include "cli/write_file.h"
#include "doctor/collect/sampler.h"
#include "doctor/ingest.h"
#include "doctor/judge.h"
#include "net/say.h"
#include "net/sockets.h"

namespace mroce::cli {
namespace {

constexpr const char* kFooter =
    R"(The command's output passes through unchanged and is kept in the bundle as well. Standard output and error of the
command are pipes, so some programs print in larger pieces than on a terminal. Endpoints of mroce in the command are
asked for their statistics, too.

The page of the diagnosis follows on standard output. With --json the diagnosis is all that standard output gets, and
what the command prints goes to standard error.

Exit code: the command's own if it is not 0 (128 + n for a signal; 127: not found, 126: not executable). Else that of
analyze: 0 healthy, 1 a finding, 5 the evidence does not suffice, 6 the test itself is invalid.

Examples:
  mroce doctor run -- ib_write_bw -d mlx5_0 -D 10 --report_gbits nodeB
  mroce doctor run -o job.json -- mpirun -np 16 -N 8 all_reduce_perf -b 8M -e 8G -f 2
  mroce doctor run -- mroce run --loss 1 -- ib_write_bw -d mroce0 -x 1 10.0.0.2)";

struct RunFlags {
  doctor::CollectOptions collect;
  RedactFlags redact;
  std::string output;
  double interval_s = 1;
  bool json = false;
};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody listens; the command need not suffer for it
    text.remove_prefix(static_cast<size_t>(written));
  }
}

struct Stream {
  net::FileDescriptor in, out;  // of the pipe
  int to = -1;                  // where it passes through to

  bool open(int target) {
    std::array<int, 2> fds{};
    if (::pipe2(fds.data(), O_CLOEXEC) != 0) return false;
    in = net::FileDescriptor(fds[0]);
    out = net::FileDescriptor(fds[1]);
    to = target;
    return true;
  }
};

// Passes output on and waits for the end. What the command left running may keep the pipes open: they are
// read for as long as something is in them, not until they close.
class CommandWatch {
 public:
  CommandWatch(std::array<Stream, 2>& streams, OutputRecord& record) : streams_(streams), record_(record) {}

  int wait_for(pid_t pid) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
      sigaddset(&set, signal);
    const net::FileDescriptor signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    while (true) {
      int status = 0;
      const pid_t ended = ::waitpid(pid, &status, WNOHANG);
      if (ended != 0) {
        drain();
        if (ended < 0) return kInternal;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      }
      std::array<pollfd, 3> fds = {pollfd{streams_[0].in.get(), POLLIN, 0},
                                   pollfd{streams_[1].in.get(), POLLIN, 0}, pollfd{signals.get(), POLLIN, 0}};
      ::poll(fds.data(), fds.size(), -1);
      for (size_t i = 0; i < streams_.size(); ++i)
        if (fds[i].revents != 0) pass_on(i);
      signalfd_siginfo info{};
      while (::read(signals.get(), &info, sizeof info) == sizeof info) {
        const int signal = static_cast<int>(info.ssi_signo);
        // A positive code is the kernel's: a key on the terminal, which the command has got already.
        if (signal != SIGCHLD && info.ssi_code <= 0) ::kill(pid, signal);
      }
    }
  }

 private:
  bool pass_on(size_t index) {
    std::array<char, 65536> piece;
    Stream& stream = streams_[index];
    const ssize_t got = ::read(stream.in.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) {
      if (got == 0) stream.in = net::FileDescriptor();
      return false;
    }
    const std::string_view text(piece.data(), static_cast<size_t>(got));
    write_all(stream.to, text);
    record_.add(index, text);
    return true;
  }

  void drain() {
    for (size_t i = 0; i < streams_.size(); ++i) {
      pollfd ready{streams_[i].in.get(), POLLIN, 0};
      while (streams_[i].in.get() >= 0 && ::poll(&ready, 1, 0) > 0 && pass_on(i)) {
      }
    }
  }

  std::array<Stream, 2>& streams_;
  OutputRecord& record_;
};

class DoctorRun {
 public:
  DoctorRun(const RunFlags& flags, std::vector<std::string> command)
      : flags_(flags), command_(std::move(command)), collect_(flags.collect) {}

  Outcome<int> run() {
    if (auto prepared = prepare(); !prepared) return tl::unexpected(prepared.error());
    bundle_ = doctor::bundle_around(collect_, doctor::take_snapshot(collect_, doctor::Phase::kStart));
    if (auto ran = run_command(); !ran) return tl::unexpected(ran.error());
    bundle_.snapshots.push_back(doctor::take_snapshot(collect_, doctor::Phase::kEnd));
    const doctor::Diagnosis diagnosis = diagnose();
    if (auto written = write(); !written) return tl::unexpected(written.error());
    return tell(diagnosis);
  }

 private:
  Outcome<void> prepare() {
    auto folder = StatsFolder::make();
    if (!folder) return tl::unexpected(folder.error());
    statistics_.emplace(std::move(*folder));
    collect_.statistics_folder = std::filesystem::path(statistics_->file_pattern()).parent_path().string();
    if (!streams_[0].open(flags_.json ? STDERR_FILENO : STDOUT_FILENO) || !streams_[1].open(STDERR_FILENO))
      return failure(kEnvironment, "cannot make a pipe", "close some files");
    return {};
  }

  LaunchPlan plan() const {
    LaunchPlan plan;
    plan.arguments = command_;
    // From a build tree, "mroce" is not in PATH, and nothing else can be meant.
    if (command_.front() == "mroce" && doctor::find_program("mroce").empty())
      plan.arguments.front() = own_program();
    plan.environment = {
        {environment_name("stats_file"), statistics_->file_pattern()},
        {environment_name("stats_interval"), fmt::format("{:.0f}", flags_.interval_s * 1000)}};
    plan.output = streams_[0].out.get();
    plan.error_output = streams_[1].out.get();
    return plan;
  }

  Outcome<void> run_command() {
    SignalRelay relay;  // blocks the signals that CommandWatch reads
    doctor::Sampler sampler(collect_, flags_.interval_s);
    sampler.start();
    doctor::CommandRun ran;
    ran.argv = command_;
    ran.begin_ns = now_ns();
    const auto started = start_program(plan());
    if (!started) return tl::unexpected(started.error());
    for (Stream& stream : streams_) stream.out = net::FileDescriptor();
    OutputRecord record;
    ran.exit_status = CommandWatch(streams_, record).wait_for(started->pid);
    ran.end_ns = now_ns();
    for (doctor::Snapshot& sample : sampler.stop()) bundle_.snapshots.push_back(std::move(sample));
    ran.output = record.text();
    bundle_.command = std::move(ran);
    return {};
  }

  doctor::Diagnosis diagnose() const {
    const doctor::Rulebook& book = doctor::builtin_rulebook();
    doctor::Evidence evidence;
    doctor::ingest({flags_.output.empty() ? "this run" : flags_.output, "", doctor::to_json(bundle_), false},
                   doctor::Context(evidence, book));
    doctor::assemble(evidence, book);
    return doctor::judge(evidence, book);
  }

  Outcome<void> write() {
    if (flags_.output.empty()) return {};
    if (flags_.redact.on) {
      doctor::Redactor redactor = flags_.redact.redactor();
      redactor.learn(bundle_);
      redactor.redact(bundle_);
    }
    return write_file(flags_.output, doctor::to_json(bundle_));
  }

  int tell(const doctor::Diagnosis& diagnosis) const {
    const int status = bundle_.command->exit_status;
    std::string text = flags_.json ? doctor::to_json(diagnosis) : doctor::page_of(diagnosis, styled_ink);
    if (!flags_.json) text = "\n" + text;
    fmt::print("{}\n", text);
    if (status != 0)
      say("mroce: the command ended with {}{}\n", status,
          status > 128 ? fmt::format(", by signal {}", status - 128) : "");
    return status != 0 ? status : doctor::exit_code_of(diagnosis.outcome);
  }

  const RunFlags& flags_;
  std::vector<std::string> command_;
  doctor::CollectOptions collect_;
  std::optional<StatsFolder> statistics_;
  std::array<Stream, 2> streams_;
  doctor::Bundle bundle_;
};

int run_doctor(const RunFlags& flags, const Rest& command) {
  if (command.empty())
    return report(
        {kUsage, "which command?", "write mroce doctor run -- COMMAND, see mroce doctor run --help"});
  if (flags.output == "-")
    return report(
        {kUsage, "the bundle cannot go to standard output, which is the command's", "name a file with -o"});
  if (flags.redact.on && flags.output.empty())
    return report({kUsage, "--redact is for the bundle, and none is written", "add -o FILE"});
  const auto status = DoctorRun(flags, command).run();
  return status ? *status : report(status.error());
}

}  // namespace

void add_doctor_run(CLI::App& doctor, const Rest& rest, int& exit_code) {
  CLI::App* run =
      doctor.add_subcommand("run", "Run a command between two snapshots and say what was in its way");
  auto flags = std::make_shared<RunFlags>();
  run->add_option("-o,--output", flags->output, "keep the bundle in this file")->type_name("FILE");
  run->add_option("--interval", flags->interval_s, "seconds between samples")
      ->capture_default_str()
      ->check(finite_range(0.1, 3600));
  run->add_flag("--json", flags->json, "the diagnosis as JSON");
  add_redact_flags(*run, flags->redact);
  add_collect_flags(*run, flags->collect);
  run->footer(kFooter);
  run->callback([flags, &rest, &exit_code] {
    flags->collect.own_program = own_program();
    exit_code = run_doctor(*flags, rest);
  });
}

}  // namespace mroce::cli
