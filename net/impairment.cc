#include "net/impairment.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/assert.h"
#include "net/burst_slices.h"

namespace mroce::net {
namespace {

constexpr uint32_t kV4HeaderBytes = 28;  // IP and UDP: what a rate counts besides the datagram
constexpr uint32_t kV6HeaderBytes = 48;
constexpr uint64_t kInSeedTwist = 0x9e3779b97f4a7c15;  // the two directions draw independently

uint8_t path_of(std::span<const std::byte> datagram) {  // packet.h, Common::path
  constexpr size_t kPathByte = 2;
  return datagram.size() > kPathByte ? std::to_integer<uint8_t>(datagram[kPathByte]) : uint8_t{0};
}

bool is_ect(Ecn ecn) {
  return ecn == Ecn::kEct0 || ecn == Ecn::kEct1;
}

// May `next` be sent right behind `burst`, which ends with a full segment, in one super-packet?
bool continues(const TxBurst& burst, const HeldDatagram& next) {
  return next.outgoing && next.tx.port == burst.port && next.tx.entropy == burst.entropy &&
         next.tx.to == burst.to && next.tx.ecn == burst.ecn && next.tx.path == burst.path &&
         next.bytes.size() <= burst.segment_bytes && burst.segments < kMaxSegments &&
         burst.total_bytes + next.bytes.size() <= kMaxBurstBytes;
}

HeldDatagram copy_of_segment(const TxBurst& burst, uint32_t length, Ecn ecn, SliceCutter& cutter) {
  HeldDatagram held;
  held.tx = burst;
  held.tx.slices = {};
  held.tx.ecn = ecn;
  held.tx.segments = 1;
  held.tx.segment_bytes = held.tx.total_bytes = length;
  held.bytes.resize(length);
  cutter.copy(length, held.bytes.data());
  return held;
}

}  // namespace

Impairment::Impairment(std::vector<ImpairmentClause> clauses, uint64_t seed, Time opened)
    : clauses_(std::move(clauses)), seed_(seed), opened_(opened), out_(0), in_(0) {
  for (const ImpairmentClause& clause : clauses_) {
    if (clause.seed) seed_ = *clause.seed;
    out_.active = out_.active || clause.out;
    in_.active = in_.active || clause.in;
  }
  out_.rng = Rng(seed_);
  in_.rng = Rng(seed_ ^ kInSeedTwist);
  out_.lanes.resize(clauses_.size());
  in_.lanes.resize(clauses_.size());
}

bool Impairment::applies(const ImpairmentClause& clause, bool outgoing, uint8_t path, uint32_t plane,
                         Nanos age) const {
  return (outgoing ? clause.out : clause.in) && (!clause.path || *clause.path == path) &&
         (!clause.plane || *clause.plane == plane) && clause.during.contains(age);
}

void Impairment::draw_delays(Direction& direction) {
  for (size_t i = 0; i < clauses_.size(); ++i) {
    const ImpairmentClause& clause = clauses_[i];
    direction.lanes[i].delay = clause.delay;
    if (clause.jitter.count() > 0) {
      const auto spread = static_cast<uint64_t>(clause.jitter.count()) * 2;
      direction.lanes[i].delay +=
          Nanos{static_cast<int64_t>(direction.rng.between(0, spread))} - clause.jitter;
    }
  }
}

bool Impairment::judge_loss(Direction& direction, const ImpairmentClause& clause, Lane& lane, Nanos age) {
  ImpairmentCounters& counters = direction.counters;
  for (const TimeWindow& window : clause.down) {
    if (window.contains(age)) {
      ++counters.dropped_down;
      return true;
    }
  }
  if (clause.burst_enter > 0) {
    // In the bad state every packet is lost; it ends after each of them with probability 1 / mean length.
    if (!lane.bad) lane.bad = direction.rng.chance(clause.burst_enter);
    if (lane.bad) {
      lane.bad = !direction.rng.chance(1 / clause.burst_packets);
      ++counters.dropped_burst;
      return true;
    }
  }
  if (clause.loss > 0 && direction.rng.chance(clause.loss)) {
    ++counters.dropped_loss;
    return true;
  }
  return false;
}

// A serialised link with a tail-drop queue in front. False if the queue is full; else `due` moves to the
// moment when the last bit has left.
bool Impairment::judge_rate(Direction& direction, const ImpairmentClause& clause, Lane& lane, Time now,
                            const Datagram& datagram, Time& due) {
  const uint64_t bytes = datagram.bytes + (datagram.v4 ? kV4HeaderBytes : kV6HeaderBytes);
  const Time start = std::max({lane.link_free, due, now});
  const double waiting_ns =
      static_cast<double>(std::max<int64_t>((lane.link_free - std::max(due, now)).count(), 0));
  const double backlog_bytes = waiting_ns * static_cast<double>(clause.rate_bps) / 8e9;
  if (backlog_bytes + static_cast<double>(bytes) > static_cast<double>(clause.queue_bytes)) {
    ++direction.counters.dropped_queue;
    return false;
  }
  const double serial_ns = static_cast<double>(bytes) * 8e9 / static_cast<double>(clause.rate_bps);
  lane.link_free = start + Nanos{std::llround(serial_ns)};
  due = lane.link_free;
  return true;
}

Impairment::Verdict Impairment::judge(Direction& direction, bool outgoing, Time now,
                                      const Datagram& datagram) {
  ++direction.counters.offered;
  ++direction.paths[datagram.path].offered;
  const Nanos age = now - opened_;
  Verdict verdict;
  verdict.ecn = datagram.ecn;
  Time due = now;
  Nanos behind{0};
  for (size_t i = 0; i < clauses_.size() && !verdict.drop; ++i) {
    const ImpairmentClause& clause = clauses_[i];
    Lane& lane = direction.lanes[i];
    if (!applies(clause, outgoing, datagram.path, datagram.plane, age)) continue;
    verdict.drop = judge_loss(direction, clause, lane, age) ||
                   (clause.rate_bps != 0 && !judge_rate(direction, clause, lane, now, datagram, due));
    if (verdict.drop) break;
    due += lane.delay;
    if (clause.ce > 0 && is_ect(verdict.ecn) && direction.rng.chance(clause.ce)) verdict.ecn = Ecn::kCe;
    if (clause.corrupt > 0 && direction.rng.chance(clause.corrupt)) verdict.corrupt = true;
    if (clause.duplicate > 0 && direction.rng.chance(clause.duplicate)) verdict.copy_twice = true;
    if (clause.reorder > 0 && direction.rng.chance(clause.reorder)) behind += clause.reorder_by;
  }
  if (verdict.drop) {
    ++direction.paths[datagram.path].dropped;
    verdict.due = direction.last_due[datagram.path];
    verdict.late = verdict.due > now;
    return verdict;
  }
  due = std::max(due, direction.last_due[datagram.path]);
  if (due > now) ++direction.counters.delayed;
  if (verdict.ecn != datagram.ecn) ++direction.counters.marked;
  if (verdict.corrupt) ++direction.counters.corrupted;
  if (behind.count() > 0) {
    ++direction.counters.reordered;
  } else {
    direction.last_due[datagram.path] = due;
  }
  verdict.due = due + behind;
  verdict.late = verdict.due > now;
  return verdict;
}

// What does not pass at once: dropped, or copied once or twice into the queue.
void Impairment::set_aside(Direction& direction, HeldDatagram&& held, const Verdict& verdict, uint8_t path,
                           ImpairmentSink& sink) {
  held.due = verdict.due;
  if (verdict.drop) {
    lose(std::move(held), verdict, sink);
    return;
  }
  if (verdict.copy_twice) {
    ++direction.counters.duplicated;
    hold(direction, HeldDatagram(held), path, sink);
  }
  if (verdict.corrupt && !held.bytes.empty()) {
    const uint64_t bit = direction.rng.below(held.bytes.size() * 8);
    held.bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  hold(direction, std::move(held), path, sink);
}

void Impairment::hold(Direction& direction, HeldDatagram&& held, uint8_t path, ImpairmentSink& sink) {
  if (queue_.push(std::move(held))) return;  // moves only on success
  ++direction.counters.dropped_queue;
  ++direction.paths[path].dropped;
  drop_held(held, run_.segments, sink);
}

void Impairment::lose(HeldDatagram&& held, const Verdict& verdict, ImpairmentSink& sink) {
  if (!sink.traces()) return;
  held.lost = true;
  if (verdict.late && queue_.push(std::move(held))) return;  // moves only on success
  drop_held(held, run_.segments, sink);
}

void Impairment::drop_held(const HeldDatagram& held, uint32_t behind, ImpairmentSink& sink) {
  if (!held.outgoing) {
    sink.dropped_in(held.rx, held.bytes);
    return;
  }
  const Slice slice{held.bytes.data(), held.bytes.size()};
  TxBurst datagram = held.tx;
  datagram.slices = {&slice, 1};
  sink.dropped_out(datagram, behind);
}

void Impairment::pass_run(uint32_t segment_bytes, ImpairmentSink& sink) {
  if (run_.segments == 0) return;
  run_.segment_bytes = run_.segments == 1 ? run_.total_bytes : segment_bytes;
  run_.slices = slices_;
  out_.counters.delivered += run_.segments;
  sink.pass_out(run_);
  run_.segments = run_.total_bytes = 0;
  run_.slices = {};
  slices_.clear();
}

void Impairment::transmit(Time now, const TxBurst& burst, ImpairmentSink& sink) {
  release(now, sink);  // what is due by now is ahead of this burst
  draw_delays(out_);
  SliceCutter cutter(burst.slices);
  run_ = burst;
  run_.segments = run_.total_bytes = 0;
  run_.slices = {};
  slices_.clear();
  for (uint32_t i = 0; i < burst.segments; ++i) {
    const uint32_t length = segment_length(burst, i);
    const Verdict verdict =
        judge(out_, true, now, {burst.path, burst.port, length, burst.to.ip.is_v4_mapped(), burst.ecn});
    if (verdict.passes()) {
      if (verdict.ecn != run_.ecn) pass_run(burst.segment_bytes, sink);
      run_.ecn = verdict.ecn;
      cutter.take(length, slices_);
      ++run_.segments;
      run_.total_bytes += length;
      continue;
    }
    if (verdict.leaves_now()) pass_run(burst.segment_bytes, sink);
    set_aside(out_, copy_of_segment(burst, length, verdict.ecn, cutter), verdict, burst.path, sink);
    if (verdict.leaves_now()) release(now, sink);
  }
  pass_run(burst.segment_bytes, sink);
}

void Impairment::receive(Time now, const RxMeta& meta, std::span<const std::byte> bytes,
                         uint32_t segment_bytes, ImpairmentSink& sink) {
  MROCE_ASSERT(segment_bytes > 0 || bytes.empty());
  release(now, sink);
  draw_delays(in_);
  RxMeta run_meta = meta;
  size_t run_begin = 0;  // the survivors in a row so far, of one codepoint
  size_t run_end = 0;
  const auto pass_run = [&] {
    if (run_end == run_begin) return;
    in_.counters.delivered += (run_end - run_begin + segment_bytes - 1) / segment_bytes;
    sink.pass_in(run_meta, bytes.subspan(run_begin, run_end - run_begin), segment_bytes);
    run_begin = run_end;
  };
  for (size_t at = 0; at < bytes.size(); at += segment_bytes) {
    const auto datagram = bytes.subspan(at, std::min<size_t>(segment_bytes, bytes.size() - at));
    const uint8_t path = path_of(datagram);
    const Verdict verdict = judge(
        in_, false, now,
        {path, meta.port, static_cast<uint32_t>(datagram.size()), meta.from.ip.is_v4_mapped(), meta.ecn});
    if (verdict.passes()) {
      if (verdict.ecn != run_meta.ecn) pass_run();
      if (run_begin == run_end) run_begin = at;
      run_meta.ecn = verdict.ecn;
      run_end = at + datagram.size();
      continue;
    }
    pass_run();  // it had to end here
    HeldDatagram held;
    held.outgoing = false;
    held.rx = meta;
    held.rx.ecn = verdict.ecn;
    held.bytes.assign(datagram.begin(), datagram.end());
    set_aside(in_, std::move(held), verdict, path, sink);
    release(now, sink);  // doubled or corrupted, and not late
  }
  pass_run();
}

void Impairment::release(Time now, ImpairmentSink& sink, uint32_t max_bursts) {
  for (uint32_t i = 0; i < max_bursts && queue_.next_due() <= now; ++i) {
    if (queue_.front().outgoing) {
      release_out(now, sink);
      continue;
    }
    const HeldDatagram held = queue_.pop();
    if (held.lost) {
      drop_held(held, 0, sink);
      continue;
    }
    ++in_.counters.delivered;
    sink.pass_in(held.rx, held.bytes, static_cast<uint32_t>(held.bytes.size()));
  }
}

// Puts what is due and belongs together back into one super-packet, so that a delayed path costs no more
// calls than an undelayed one.
void Impairment::release_out(Time now, ImpairmentSink& sink) {
  std::vector<HeldDatagram> parts;
  parts.push_back(queue_.pop());
  if (parts.front().lost) {
    drop_held(parts.front(), 0, sink);
    return;
  }
  TxBurst burst = parts.front().tx;
  while (queue_.next_due() <= now && parts.back().bytes.size() == burst.segment_bytes) {
    if (queue_.front().lost && queue_.front().outgoing) {
      drop_held(queue_.pop(), burst.segments, sink);
      continue;
    }
    if (!continues(burst, queue_.front())) break;
    parts.push_back(queue_.pop());
    ++burst.segments;
    burst.total_bytes += static_cast<uint32_t>(parts.back().bytes.size());
  }
  std::vector<Slice> slices;
  for (const HeldDatagram& part : parts) slices.push_back({part.bytes.data(), part.bytes.size()});
  burst.slices = slices;
  out_.counters.delivered += burst.segments;
  sink.pass_out(burst);
}

}  // namespace mroce::net
