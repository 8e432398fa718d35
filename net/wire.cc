#include "net/wire.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "net/burst_slices.h"

namespace mroce::net {
namespace {

constexpr Nanos kRetryAfter = micros(200);
constexpr Nanos kGiveUpAfter = millis(10);
constexpr uint32_t kReleasesARound = 16;
constexpr std::string_view kDropped = "dropped by impairment";
constexpr std::string_view kRefused = "refused by the kernel";

}  // namespace

Wire::Wire(SendSockets sockets, Impairment impairment, std::optional<Trace> trace, WireUser& user)
    : sockets_(std::move(sockets)),
      impairment_(std::move(impairment)),
      trace_(std::move(trace)),
      user_(user) {}

void Wire::send(Time now, const TxBurst& burst) {
  now_ = now;
  if (impairment_.impairs_out()) [[unlikely]] {
    impairment_.transmit(now, burst, *this);
  } else {
    pass_out(burst);
  }
}

void Wire::receive(Time now, const Received& received) {
  now_ = now;
  if (impairment_.impairs_in()) [[unlikely]] {
    impairment_.receive(now, received.meta, received.bytes, received.segment_bytes, *this);
  } else {
    pass_in(received.meta, received.bytes, received.segment_bytes);
  }
}

void Wire::progress(Time now) {
  now_ = now;
  if (blocked()) retry_waiting();
  if (!blocked() && impairment_.next_deadline() <= now) impairment_.release(now, *this, kReleasesARound);
}

Time Wire::next_deadline() const {
  // What is due in the impairment layer waits for the sockets, too.
  return blocked() ? now_ + kRetryAfter : impairment_.next_deadline();
}

void Wire::pass_out(const TxBurst& burst) {
  uint32_t refused_from = burst.segments;
  if (blocked()) {  // behind the others
    keep(burst, 0);
  } else {
    const SendResult result = sockets_.send(burst);
    if (result.outcome == SendOutcome::kWouldBlock) keep(burst, result.segments);
    if (result.outcome == SendOutcome::kError) {
      refused_ |= uint64_t{1} << (burst.port % 64);
      refused_from = result.segments;
    }
  }
  if (trace_) [[unlikely]]
    trace_out(burst, refused_from);
}

void Wire::keep(const TxBurst& burst, uint32_t first_segment) {
  Waiting waiting{burst, {}, now_};
  const size_t sent = size_t{burst.segment_bytes} * first_segment;
  waiting.bytes.resize(burst.total_bytes - sent);
  SliceCutter cutter(burst.slices);
  cutter.skip(sent);
  cutter.copy(waiting.bytes.size(), waiting.bytes.data());
  waiting.burst.segments -= first_segment;
  waiting.burst.total_bytes = static_cast<uint32_t>(waiting.bytes.size());
  waiting.burst.segment_bytes = std::min(waiting.burst.segment_bytes, waiting.burst.total_bytes);
  waiting.burst.slices = {};
  waiting_.push_back(std::move(waiting));
}

void Wire::retry_waiting() {
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    const Slice slice{first.bytes.data(), first.bytes.size()};
    TxBurst burst = first.burst;
    burst.slices = {&slice, 1};
    const SendResult result = sockets_.send(burst);
    if (result.outcome == SendOutcome::kWouldBlock) {
      if (now_ - first.since < kGiveUpAfter) {
        if (result.segments > 0) {  // part of it left: the rest goes on waiting, in front
          keep(burst, result.segments);
          std::rotate(waiting_.begin(), waiting_.end() - 1, waiting_.end());
          waiting_.erase(waiting_.begin() + 1);
        }
        return;
      }
      ++gave_up_;
    }
    if (result.outcome != SendOutcome::kSent) refused_ |= uint64_t{1} << (burst.port % 64);
    waiting_.pop_front();
  }
}

void Wire::pass_in(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes) {
  if (trace_) [[unlikely]]
    trace_in(meta, bytes, segment_bytes, {});
  user_.arrived(meta, bytes, segment_bytes);
}

void Wire::dropped_out(const TxBurst& datagram, uint32_t behind) {
  if (!trace_) return;  // the delay queue was full
  Lost lost{datagram, {}, behind};
  lost.bytes.resize(datagram.total_bytes);
  SliceCutter(datagram.slices).copy(lost.bytes.size(), lost.bytes.data());
  lost.datagram.slices = {};
  lost_.push_back(std::move(lost));
  if (behind == 0) trace_lost(0);
}

void Wire::dropped_in(const RxMeta& meta, std::span<const std::byte> datagram) {
  if (trace_) trace_in(meta, datagram, static_cast<uint32_t>(datagram.size()), kDropped);
}

void Wire::trace_out(const TxBurst& burst, uint32_t refused_from) {
  SliceCutter cutter(burst.slices);
  std::vector<Slice> slices;
  for (uint32_t i = 0; i < burst.segments; ++i) {
    trace_lost(i);
    slices.clear();
    cutter.take(segment_length(burst, i), slices);
    trace_segment(burst, slices, i < refused_from ? std::string_view{} : kRefused);
  }
  trace_lost(burst.segments);
}

// Those that were dropped before segment `behind` of the burst.
void Wire::trace_lost(uint32_t behind) {
  while (!lost_.empty() && lost_.front().behind <= behind) {
    const Lost& lost = lost_.front();
    const Slice slice{lost.bytes.data(), lost.bytes.size()};
    trace_segment(lost.datagram, {&slice, 1}, kDropped);
    lost_.pop_front();
  }
}

void Wire::trace_segment(const TxBurst& burst, std::span<const Slice> slices, std::string_view comment) {
  TracedDatagram traced;
  traced.unix_ns = ns_of(now_) + trace_->unix_offset_ns;
  traced.from = {trace_->listening[burst.port].ip, sockets_.source_port(burst.port, burst.entropy)};
  traced.to = burst.to;
  traced.ecn = burst.ecn;
  traced.comment = comment;
  trace_->writer.write(traced, slices);
}

void Wire::trace_in(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes,
                    std::string_view comment) {
  TracedDatagram traced;
  traced.unix_ns = ns_of(now_) + trace_->unix_offset_ns;
  traced.from = meta.from;
  traced.to = trace_->listening[meta.port];
  traced.ecn = meta.ecn;
  traced.outgoing = false;
  traced.comment = comment;
  for (size_t at = 0; at < bytes.size(); at += segment_bytes) {
    const auto datagram = bytes.subspan(at, std::min<size_t>(segment_bytes, bytes.size() - at));
    const Slice slice{datagram.data(), datagram.size()};
    trace_->writer.write(traced, {&slice, 1});
  }
}

void Wire::finish_trace() {
  if (trace_) trace_->writer.close();
}

void Wire::close() {
  waiting_.clear();
  sockets_.close();
  finish_trace();
}

void Wire::abandon() {
  if (trace_) trace_->writer.abandon();
  close();
}

}  // namespace mroce::net
