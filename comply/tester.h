// Tester: everything that an assertion does goes through one of these. It sends and receives datagrams,
// remembers all of them, and waits for what the specification says must (or must not) come.
//
// The protocol itself is in Connection (connection.h): connections register here and are shown what arrives
// for them. An expectation looks at what was received since the last forget() and was not yet met by another
// expectation, then waits until its bound.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "comply/packet.h"
#include "comply/target.h"
#include "core/base/rng.h"

namespace mroce::comply {

class Connection;

// Thrown where a rule is broken, caught by the suite.
struct RuleBroken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Tester {
 public:
  Tester(Target& target, uint64_t seed, Nanos limit);
  ~Tester();
  Tester(const Tester&) = delete;
  Tester& operator=(const Tester&) = delete;

  Target& target() { return target_; }
  Time now() const { return target_.now(); }
  Rng& rng() { return rng_; }
  // Starts a fresh endpoint; what was received before is forgotten.
  const Started& start(const StartOptions& options = {});
  const Started& started() const { return started_; }

  // ---- packets
  // `plain`: what it was before it was sealed, for the record.
  void send(Bytes datagram, const Origin& origin = {}, std::string note = {},
            const std::optional<Bytes>& plain = std::nullopt);
  const std::deque<Packet>& log() const { return log_; }
  // What has been received so far meets no expectation any more.
  void forget() { mark_ = log_.size(); }

  // Waits for a packet, at most `within` (in real time at least kPatience); RuleBroken if none comes.
  const Packet& expect(const Match& match, const std::string& what, Nanos within = kPatience);
  // The same with nullptr instead of an exception.
  const Packet* find(const Match& match, Nanos within = kPatience);
  // Waits the whole time; RuleBroken if one comes.
  void expect_none(const Match& match, const std::string& what, Nanos within = millis(20));
  // Waits until it is true.
  void until(const std::function<bool()>& is_true, const std::string& what, Nanos within = kPatience);
  void run_for(Nanos time);
  // Packets received since the last forget() that match.
  std::vector<const Packet*> all(const Match& match) const;
  size_t count(const Match& match) const { return all(match).size(); }

  // Says how slow the control answers in this assertion were; empty if they were not. What took most of the
  // time that an assertion has is the target's control side, and no rule of the specification.
  std::string slow_answers() const;

  // RuleBroken with this sentence, unless `holds`.
  static void check(bool holds, const std::string& what);
  void note(const std::string& text) { notes_.push_back(text); }
  const std::vector<std::string>& notes() const { return notes_; }

  // ---- for connections
  void attach(Connection& connection) { connections_.push_back(&connection); }
  void detach(Connection& connection);

  static constexpr Nanos kPatience = millis(1500);

 private:
  bool step(Time until);  // one datagram; false when time is over
  const Packet* find_in_log(const Match& match, size_t& at);
  Time bound(Nanos within) const;
  void check_limit() const;

  Target& target_;
  Rng rng_;
  Started started_;
  Time began_;
  Time limit_;
  ControlWaits waits_before_;
  std::deque<Packet> log_;
  size_t mark_ = 0;
  std::vector<std::string> notes_;
  std::vector<Connection*> connections_;
};

}  // namespace mroce::comply
