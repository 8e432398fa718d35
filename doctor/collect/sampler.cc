#include "doctor/collect/sampler.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "doctor/lenient_json.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxBytes = 512u << 20;
constexpr auto kPatience = std::chrono::seconds(20);  // for the samples, after the last one

bool has_lines_of_counters(const BundleSource& source) {
  return source.name.starts_with("grep -r ") || source.name.starts_with("ethtool -S ");
}

// "path:value", "   name: value": the colon before the value.
size_t colon_of(std::string_view line) {
  const size_t colon = line.rfind(':');
  return colon == std::string_view::npos || colon + 1 >= line.size() ? std::string_view::npos : colon;
}

void append_line(Snapshot& sample, const BundleSource& like, std::string_view line) {
  auto found = std::find_if(sample.sources.begin(), sample.sources.end(),
                            [&](const BundleSource& s) { return s.name == like.name && s.text; });
  if (found == sample.sources.end()) {
    BundleSource added{like.name, like.device, like.netdev, std::string(), ""};
    if (like.name.starts_with("ethtool -S ")) added.text = "NIC statistics:\n";
    found = sample.sources.insert(sample.sources.end(), std::move(added));
  }
  *found->text += line;
  *found->text += '\n';
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

[[noreturn]] void sample_until_stopped(CollectOptions options, double interval_s, int stop, int results) {
  const MachinePorts ports = find_ports(Tree(options.root));
  options.limits.seconds = std::min(options.limits.seconds, std::max(interval_s, 0.2));
  SampleKeeper keeper;
  auto next = Clock::now();
  while (true) {
    keeper.add(take_sample(options, ports));
    if (keeper.thin()) interval_s *= 2;
    next += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_s));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
    if (left < 0) next = Clock::now();  // what is late is not made up for
    pollfd stopped{stop, POLLIN, 0};
    if (::poll(&stopped, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000))) > 0) break;
  }
  Bundle bundle;
  bundle.snapshots = keeper.samples();
  write_all(results, to_json(bundle));
  ::_exit(0);
}

}  // namespace

bool is_of_a_ring(std::string_view name) {
  name = trim(name);
  if (name.starts_with('[')) return true;
  for (const std::string_view prefix : {"rx", "tx", "ch", "rxq", "txq", "queue_", "rx_queue_", "tx_queue_"}) {
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    if (name[prefix.size()] >= '0' && name[prefix.size()] <= '9') return true;
  }
  return false;
}

void SampleKeeper::filter(BundleSource& source) {
  if (!source.text || !has_lines_of_counters(source)) return;
  std::string kept;
  for (const std::string_view line : split(*source.text, '\n')) {
    const size_t colon = colon_of(line);
    if (colon == std::string_view::npos || is_of_a_ring(line)) continue;
    const std::string key = source.name + "\n" + std::string(line.substr(0, colon));
    const auto [known, added] = last_.try_emplace(key, line);
    if (!added && known->second != line) {
      if (moving_.insert(key).second && !samples_.empty())
        append_line(samples_.back(), source, known->second);
      known->second = std::string(line);
    }
    if (moving_.contains(key)) kept += std::string(line) + "\n";
  }
  if (!kept.empty() && source.name.starts_with("ethtool -S ")) kept = "NIC statistics:\n" + kept;
  source.text = std::move(kept);
}

void SampleKeeper::add(Snapshot&& sample) {
  for (BundleSource& source : sample.sources) filter(source);
  std::erase_if(sample.sources, [](const BundleSource& s) { return !s.text || s.text->empty(); });
  samples_.push_back(std::move(sample));
}

bool SampleKeeper::thin() {
  if (samples_.size() < kMaxSamples) return false;
  size_t kept = 0;
  for (size_t i = 0; i < samples_.size(); i += 2) std::swap(samples_[kept++], samples_[i]);
  samples_.resize(kept);
  return true;
}

Sampler::~Sampler() {
  if (stop_ >= 0) ::close(stop_);
  if (results_ >= 0) ::close(results_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Sampler::start() {
  std::array<int, 2> stop{}, results{};
  if (::pipe2(stop.data(), O_CLOEXEC) != 0) return false;
  if (::pipe2(results.data(), O_CLOEXEC) != 0) {
    ::close(stop[0]);
    ::close(stop[1]);
    return false;
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);  // a key on the terminal is meant for the command
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::close(stop[1]);
    ::close(results[0]);
    sample_until_stopped(options_, interval_s_, stop[0], results[1]);
  }
  ::close(stop[0]);
  ::close(results[1]);
  stop_ = stop[1];
  results_ = results[0];
  return pid_ > 0;
}

std::vector<Snapshot> Sampler::stop() {
  if (pid_ <= 0) return {};
  ::close(stop_);
  stop_ = -1;
  std::string text;
  const auto limit = Clock::now() + kPatience;
  std::array<char, 65536> piece;
  while (text.size() < kMaxBytes) {
    pollfd ready{results_, POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) == 0) break;
    const ssize_t got = ::read(results_, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<size_t>(got));
  }
  std::vector<Snapshot> out;
  read_bundles(
      std::move(read_json(text).value),
      [&](Bundle&& bundle, uint32_t) {
        for (Snapshot& snapshot : bundle.snapshots) out.push_back(std::move(snapshot));
      },
      [](uint32_t, const std::string&) {});
  return out;
}

}  // namespace mroce::doctor
