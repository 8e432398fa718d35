#include "comply/tester.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comply/connection.h"

namespace mroce::comply {
namespace {
// More packets than any assertion needs: a target that floods the tester ends the assertion.
constexpr size_t kMaxLog = 200'000;
// Control answers are slow when they take so long each, or most of the assertion's time.
constexpr Nanos kSlowAnswer = millis(200);
}  // namespace

Tester::Tester(Target& target, uint64_t seed, Nanos limit)
    : target_(target),
      rng_(seed),
      began_(target.now()),
      limit_(began_ + limit),
      waits_before_(target.control_waits()) {
  target_.limit_answers(limit_);
}
Tester::~Tester() {
  target_.limit_answers(kNever);
}

const Started& Tester::start(const StartOptions& options) {
  started_ = target_.start(options);
  forget();
  return started_;
}

void Tester::send(Bytes datagram, const Origin& origin, std::string note, const std::optional<Bytes>& plain) {
  Packet packet = decode(datagram);
  if (plain) decode_opened(packet, plain);
  packet.sent = true;
  packet.at = now();
  packet.ecn = origin.ecn;
  packet.plane = origin.plane;
  packet.to_stranger = origin.stranger;
  packet.from = target_.source_address(origin);
  packet.to = {started_.address, started_.port};
  packet.note = std::move(note);
  target_.send(datagram, origin);
  log_.push_back(std::move(packet));
}

std::string Tester::slow_answers() const {
  const ControlWaits waits = target_.control_waits();
  const Nanos total = waits.total - waits_before_.total;
  const uint32_t answers = waits.answers - waits_before_.answers;
  const Nanos took = now() - began_;
  const bool slow = answers != 0 && total / answers >= kSlowAnswer;
  if (!slow && (total < kSlowAnswer || total < took / 2)) return {};
  const auto tenths = [](Nanos time) { return static_cast<double>(time.count()) / 1e9; };
  return fmt::format("the control answers are slow: {:.1f} s of {:.1f} s were spent waiting for {} of them",
                     tenths(total), tenths(took), answers);
}

void Tester::detach(Connection& connection) {
  std::erase(connections_, &connection);
}

Time Tester::bound(Nanos within) const {
  return now() + (target_.virtual_time() ? within : std::max(within, kPatience));
}

void Tester::check_limit() const {
  if (now() >= limit_) {
    const std::string slow = slow_answers();
    if (!slow.empty()) throw NotRun(slow);
    throw RuleBroken("the assertion took longer than its time limit");
  }
  if (log_.size() >= kMaxLog) throw RuleBroken("the target sent more datagrams than the tester can keep");
}

bool Tester::step(Time until) {
  check_limit();
  auto arrived = target_.receive(std::min(until, limit_));
  if (!arrived) {
    check_limit();
    return false;
  }
  Packet packet = decode(std::move(arrived->bytes));
  packet.at = arrived->at;
  packet.ecn = arrived->ecn;
  packet.from = arrived->from;
  packet.to = arrived->to;
  packet.plane = arrived->plane;
  packet.to_source_port = arrived->to_source_port;
  packet.to_stranger = arrived->to_stranger;
  log_.push_back(std::move(packet));
  Packet& kept = log_.back();  // a deque: stays where it is while connections answer
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i]->take(kept)) break;
  }
  return true;
}

// From the `at`th packet on, which is left behind the last one looked at.
const Packet* Tester::find_in_log(const Match& match, size_t& at) {
  while (at < log_.size()) {
    Packet& packet = log_[at++];
    if (packet.sent || packet.consumed || !packet.note.empty() || !match(packet)) continue;
    packet.consumed = true;
    return &packet;
  }
  return nullptr;
}

const Packet* Tester::find(const Match& match, Nanos within) {
  const Time end = bound(within);
  size_t at = mark_;
  while (true) {
    if (const Packet* found = find_in_log(match, at)) return found;
    if (!step(end)) return find_in_log(match, at);
  }
}

const Packet& Tester::expect(const Match& match, const std::string& what, Nanos within) {
  const Packet* found = find(match, within);
  if (found == nullptr) throw RuleBroken(fmt::format("{} did not come", what));
  return *found;
}

void Tester::expect_none(const Match& match, const std::string& what, Nanos within) {
  const Time end = now() + within;
  while (step(end)) {
  }
  size_t at = mark_;
  if (find_in_log(match, at) != nullptr) throw RuleBroken(fmt::format("{} came", what));
}

void Tester::until(const std::function<bool()>& is_true, const std::string& what, Nanos within) {
  const Nanos waits_before = target_.control_waits().total;
  // In between the state of the target is asked for now and then: its answer may need no packet. The time
  // that asking takes does not count.
  Time end = bound(within);
  const Time bound_without_waits = end;
  while (!is_true()) {
    end = bound_without_waits + (target_.control_waits().total - waits_before);
    if (now() >= end) throw RuleBroken(fmt::format("{}: not within its time", what));
    step(std::min(end, now() + millis(1)));
  }
}

void Tester::run_for(Nanos time) {
  const Time end = now() + time;
  while (step(end)) {
  }
}

std::vector<const Packet*> Tester::all(const Match& match) const {
  std::vector<const Packet*> found;
  for (size_t i = mark_; i < log_.size(); ++i) {
    if (!log_[i].sent && match(log_[i])) found.push_back(&log_[i]);
  }
  return found;
}

void Tester::check(bool holds, const std::string& what) {
  if (!holds) throw RuleBroken(what);
}

}  // namespace mroce::comply
