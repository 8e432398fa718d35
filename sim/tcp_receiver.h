// The receiving side of a TCP connection: reassembly, SACK blocks, and when to acknowledge.
//
// An acknowledgement leaves at once for a segment that is out of order, that was there already, that fills a
// gap or that ends the stream (RFC 5681, section 4.2), for each of the first `quick_acks` segments, and for
// every second one; else after a delay. With DCTCP the acknowledgement of what came before leaves first when
// a segment is marked and its predecessor was not, or the other way round, so that the sender can count
// marked bytes although acknowledgements are delayed (RFC 8257, section 3.2).
//
// SACK (RFC 2018): the first block holds the segment that came last, the others what was reported before it.
// A segment that was there already is reported first (D-SACK, RFC 2883).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/tcp_header.h"
#include "sim/tcp_options.h"

namespace mroce::sim {

class TcpReceiver {
 public:
  struct Arrival {
    uint64_t delivered = 0;  // bytes, in order
    bool duplicate = false;  // brought nothing
    bool out_of_order = false;
    bool complete = false;  // the last byte of the stream was delivered by it
    bool acknowledge = false;
  };

  explicit TcpReceiver(const TcpOptions& options) : quick_(options.quick_acks) {}

  // True: acknowledge what came before, with its mark, ahead of a segment that is marked like this.
  bool mark_changes(bool marked) const { return marked != marked_ && unacknowledged_ > 0; }
  void set_mark(bool marked) { marked_ = marked; }
  Arrival on_segment(SimTime now, const TcpOptions& options, uint32_t sequence, uint32_t bytes, bool fin);
  // Fills in what an acknowledgement says, and takes note that it was sent.
  void acknowledge(const TcpOptions& options, TcpHeader& header);

  uint64_t next() const { return next_; }
  SimTime deadline() const { return ack_at_; }
  uint64_t memory_bytes() const { return held_.capacity() * sizeof(Range); }

 private:
  struct Range {
    uint64_t begin, end;
  };

  bool insert(uint64_t begin, uint64_t end);  // false: nothing of it was new
  const Range* range_with(uint64_t offset) const;
  void report_first(uint64_t offset);

  uint64_t next_ = 0;
  uint64_t length_ = UINT64_MAX;        // of the stream, once its end was seen
  std::vector<Range> held_;             // beyond next_: sorted, with gaps between
  std::array<uint64_t, 4> reported_{};  // an offset in each range that was reported, the last one first
  uint32_t reported_count_ = 0;
  uint32_t unacknowledged_ = 0;  // segments
  uint32_t quick_ = 0;
  bool marked_ = false;
  TcpSackBlock again_;  // D-SACK for the next acknowledgement; empty: none
  SimTime ack_at_ = kEndOfTime;
};

}  // namespace mroce::sim
