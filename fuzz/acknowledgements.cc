// ACKs that the input makes up, near the truth, for an engine with work in flight in both directions on
// several paths. A lie may stall or end what it names; it must not complete a work request of which no ACK
// named a packet, nor READs and atomics without their response.
#include <set>
#include <tuple>

#include "fuzz/two_engines.h"

using namespace mroce;
using namespace mroce::fuzz;

namespace {

constexpr uint32_t kMemory = 1 << 16;
constexpr size_t kMaxSteps = 200;

// Bytes of one message, as half-open ranges.
class Ranges {
 public:
  void add(uint64_t begin, uint64_t end) { ranges_.emplace(begin, end); }
  bool cover(uint64_t length) const {
    uint64_t reached = 0;
    for (const auto& [begin, end] : ranges_) {
      if (begin > reached) return false;
      reached = std::max(reached, end);
    }
    return !ranges_.empty() && reached >= length;
  }

 private:
  std::set<std::pair<uint64_t, uint64_t>> ranges_;
};

// What A has sent on its queue pair, and what of it some ACK named. Generous: an ACK that A refuses counts,
// too, and so does one of an earlier connection.
class Witness {
 public:
  Witness(bool secured, uint32_t stream_of_a, uint32_t stream_of_b)
      : secured_(secured), stream_of_a_(stream_of_a & 0xffff), stream_of_b_(stream_of_b & 0xffff) {}

  void from_a(const PacketView& packet) {
    wire::Common header;
    wire::Data data;
    wire::In payload;
    if (!wire::decode_common(packet.bytes, header) || header.type != wire::Type::kData) return;
    if (!wire::decode_data(without_trailer(packet.bytes, secured_), header, data, payload)) return;
    sent_[{header.path, header.pseq}] = data.cpsn;
    if (data.stream != stream_of_b_ || data.op > wire::DataOp::kFetchAdd) return;
    if (data.op == wire::DataOp::kReadResp) return;
    packets_[data.cpsn] = {data.msn, data.offset, data.offset + payload.size()};
  }
  void from_b(const PacketView& packet) {
    wire::Common header;
    if (!wire::decode_common(packet.bytes, header)) return;
    const auto body = without_trailer(packet.bytes, secured_);
    wire::Ack ack;
    wire::Close close;
    wire::Data data;
    wire::In payload;
    if (header.type == wire::Type::kAck && wire::decode_ack(body, ack)) return named_by(ack);
    const bool closes = header.type == wire::Type::kClose || header.type == wire::Type::kCloseAck;
    if (closes && wire::decode_close(body, close)) return named_before(close.cack);
    if (header.type != wire::Type::kData || !wire::decode_data(body, header, data, payload)) return;
    if (data.stream != stream_of_a_) return;
    if (data.op == wire::DataOp::kReadResp) {
      responses_[data.rdslot].add(data.offset, data.offset + payload.size());
    } else if (data.op == wire::DataOp::kAtomicResp) {
      responses_[data.rdslot].add(0, 8);
    }
  }
  void named_by(const wire::Ack& ack) {
    named_before(ack.cack);
    for (uint32_t i = 0; i < ack.nblocks; ++i) {
      const wire::PathBlock& block = ack.blocks[i];
      for (uint32_t distance = 0; distance < wire::kVectorBits; ++distance) {
        if ((block.vector[distance / 64] >> (distance % 64) & 1) == 0) continue;
        const auto found = sent_.find({block.path, block.largest - distance});
        if (found != sent_.end()) name(found->second);
      }
    }
  }
  void require_named(uint32_t msn, uint32_t length, bool responded) {
    const Ranges& ranges = (responded ? responses_ : named_)[msn];
    require(ranges.cover(length), "success of what nobody acknowledged", fmt::format("MSN {}", msn));
  }

 private:
  struct Piece {
    uint32_t msn;
    uint64_t begin, end;
  };
  void named_before(uint32_t cack) {
    for (const auto& [cpsn, piece] : packets_) {
      if (static_cast<int32_t>(cpsn - cack) < 0) named_[piece.msn].add(piece.begin, piece.end);
    }
  }
  void name(uint32_t cpsn) {
    const auto found = packets_.find(cpsn);
    if (found != packets_.end()) named_[found->second.msn].add(found->second.begin, found->second.end);
  }

  bool secured_;
  uint32_t stream_of_a_, stream_of_b_;
  std::map<std::pair<uint8_t, uint32_t>, uint32_t> sent_;  // (path, PSEQ) to CPSN
  std::map<uint32_t, Piece> packets_;                      // by CPSN
  std::map<uint32_t, Ranges> named_, responses_;           // by MSN
};

class Run {
 public:
  Run(Source& in, const Flavour& flavour)
      : in_(in),
        flavour_(flavour),
        world_(in.byte()),
        a_(world_.add_endpoint(endpoint_options(flavour))),
        b_(world_.add_endpoint(endpoint_options(flavour))),
        regions_of_a_(a_),
        regions_of_b_(b_),
        ma_(a_.make_mr(kMemory)),
        mb_(b_.make_mr(kMemory)),
        qa_(a_.make_qp()),
        qb_(b_.make_qp()),
        witness_(flavour.secured, qa_.number, qb_.number) {
    regions_of_a_.add(ma_.addr, ma_.length);
    regions_of_b_.add(mb_.addr, mb_.length);
    world_.network().on_sent([this](const PacketView& packet) { watch(packet); });
    soak::ConnectOptions options;
    options.retry_cnt = 2;
    soak::connect(qa_, qb_, options);
    for (int i = 0; i < 4; ++i) receive();
    require(qb_.write(1, {mb_.sge(0, 100)}, ma_.addr, ma_.rkey).has_value(), "a WRITE of the peer");
    for (int i = 0; i < 3; ++i) post();
    world_.run_for(millis(1));
  }

  void run() {
    for (size_t i = 0; i < kMaxSteps && !in_.empty(); ++i) {
      step();
      world_.pump();
      collect();
    }
    require_counters(a_.look());
    require_counters(b_.look());
    world_.network().stop_faults();
    require(qa_.to_error().has_value(), "the queue pair cannot be given up");
    world_.run_for(seconds(1));
    collect();
    require(posted_.size() == completed_, "a work request has no completion");
    require_end(world_, a_, b_);
  }

 private:
  struct Posted {
    Opcode opcode;
    uint32_t length;
  };

  void watch(const PacketView& packet) {
    note(packet.from == a_.index() ? of_a_ : of_b_, packet, flavour_.secured);
    if (packet.from == a_.index()) {
      witness_.from_a(packet);
    } else {
      witness_.from_b(packet);
    }
  }

  void receive() {
    const Status posted = qb_.post_recv(receives_, {mb_.sge(0, 20000)});
    if (posted) ++receives_;
  }

  void post() {
    constexpr Opcode kOpcodes[] = {Opcode::kWrite,    Opcode::kSend,     Opcode::kRead,
                                   Opcode::kWriteImm, Opcode::kFetchAdd, Opcode::kCompareSwap};
    const Opcode opcode = kOpcodes[in_.below(std::size(kOpcodes))];
    const bool atomic = opcode == Opcode::kFetchAdd || opcode == Opcode::kCompareSwap;
    const uint32_t length = atomic ? 8 : in_.byte() * 64U;
    const std::vector<Sge> sges{ma_.sge(0, length)};
    SendWr wr;
    wr.wr_id = posted_.size();
    wr.opcode = opcode;
    wr.flags = send_flag::kSignaled;
    wr.sges = sges;
    wr.remote_addr = mb_.addr;
    wr.rkey = mb_.rkey;
    wr.swap = 5;
    if (qa_.post(wr)) posted_.push_back({opcode, length});
  }

  void collect() {
    while (const auto wc = a_.poll(qa_.send_cq)) {
      require(wc->wr_id == completed_ && completed_ < posted_.size(), "completions out of order");
      const Posted& posted = posted_[completed_++];
      if (wc->status != WcStatus::kSuccess) continue;
      const bool responded = posted.opcode == Opcode::kRead || posted.opcode == Opcode::kFetchAdd ||
                             posted.opcode == Opcode::kCompareSwap;
      witness_.require_named(static_cast<uint32_t>(wc->wr_id), posted.length, responded);
    }
  }

  void step() {
    switch (in_.below(10)) {
      case 0:
        return post();
      case 1:
        return receive();
      case 2:
        return world_.run_for(micros(in_.byte()));
      case 3:
        return world_.run_for(millis(in_.byte()));
      case 4:  // the peer's own ACKs are heard, or not; our packets arrive, or not
        world_.network().faults(b_.index(), a_.index()).cut = in_.bit();
        world_.network().faults(a_.index(), b_.index()).loss = in_.byte() / 256.0;
        return;
      default:
        return lie();
    }
  }

  void block(wire::PathBlock& out) {
    out.path = static_cast<uint8_t>(in_.below(5));
    out.largest = in_.near(of_a_.pseq[out.path]);
    const uint8_t shape = in_.byte();
    for (uint64_t& word : out.vector) word = shape < 128 ? uint64_t{shape} : in_.wide();
    out.rate = shape % 4 == 3 ? in_.half() : uint16_t{0};
    out.rx_count = in_.near(of_a_.pseq[out.path]);
    out.ce_count = in_.byte();
    out.ts_echo = in_.near(of_a_.ts);
    out.ack_delay = in_.half();
  }

  void tlvs(wire::Ack& ack) {
    const uint8_t which = in_.byte();
    ack.nnaks = which & 3;
    for (uint32_t i = 0; i < ack.nnaks; ++i) {
      ack.naks[i] = {in_.near(of_a_.cpsn), static_cast<wire::NakCode>(1 + in_.below(10)), in_.byte()};
    }
    ack.ncredits = which >> 2 & 3;
    for (uint32_t i = 0; i < ack.ncredits; ++i) {
      const auto stream = static_cast<uint16_t>(in_.bit() ? qa_.number : in_.half());
      ack.credits[i] = {stream, in_.near(static_cast<uint32_t>(receives_)),
                        static_cast<uint16_t>(in_.near(of_a_.incarnation))};
    }
    ack.nreclaims = which >> 4 & 1;
    ack.reclaims[0] = static_cast<uint16_t>(qa_.number);
    ack.has_port_status = (which & 32) != 0;
    if (ack.has_port_status) ack.port_status = {in_.byte(), in_.near(1)};
  }

  void lie() {
    wire::Ack ack;
    ack.cack = in_.bit() ? in_.near(of_a_.cpsn) : in_.near(of_b_.cack);
    ack.nblocks = static_cast<uint8_t>(in_.below(5));
    ack.host_penalty = in_.byte() & 127;
    ack.cpsn_limit = in_.near(of_b_.cpsn_limit);
    for (uint32_t i = 0; i < ack.nblocks; ++i) block(ack.blocks[i]);
    tlvs(ack);
    wire::Common header;
    header.type = wire::Type::kAck;
    header.dcid = of_b_.dcid;
    header.path = static_cast<uint8_t>(in_.below(5));
    header.pseq = in_.near(of_b_.control[header.path]);
    std::vector<std::byte> out(2048);
    out.resize(wire::encode_ack(header, ack, out));
    world_.pump();  // what is on its way counts as sent
    witness_.named_by(ack);
    deliver(b_, a_, 0, signed_copy(out));
  }

  Source& in_;
  const Flavour flavour_;
  World world_;
  Endpoint& a_;
  Endpoint& b_;
  Regions regions_of_a_, regions_of_b_;
  Mr ma_, mb_;
  Qp qa_, qb_;
  Witness witness_;
  Seen of_a_, of_b_;
  std::vector<Posted> posted_;
  size_t completed_ = 0;
  uint64_t receives_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Source in(data, size);
  const Flavour flavour = Flavour::of(in.byte());
  Run(in, flavour).run();
  return 0;
}
