// Two whole engines: every command that a program may give, right and wrong ones, weather, and an attacker
// who sees everything: datagrams that the input makes up for every type, real ones changed and said again,
// with the right connection id and a good trailer. What must hold is in fuzz/two_engines.h.
#include <array>
#include <optional>

#include "fuzz/two_engines.h"

using namespace mroce;
using namespace mroce::fuzz;

namespace {

constexpr uint32_t kBlock = 1 << 15;
constexpr size_t kMaxSteps = 300;
constexpr size_t kObjects = 3;  // of a kind, on each side
constexpr size_t kRemembered = 16;

struct FuzzedQp {
  Qp qp;
  bool shared = false;  // takes its receives from the SRQ
  Outstanding sends, receives;
};

// One engine with what was made on it.
class Side {
 public:
  Side(World& world, const Flavour& flavour)
      : endpoint(world.add_endpoint(endpoint_options(flavour))),
        regions_(endpoint),
        block(endpoint.memory().allocate(kBlock)),
        cq(endpoint.make_cq(32)),
        small_cq(endpoint.make_cq(2)),
        srq(endpoint.make_srq(8)) {
    endpoint.memory().allocate(kBlock);  // registered by nobody
    regions_.add(block, kBlock);
    for (size_t i = 0; i < 2; ++i) make_region(i, 0, kBlock, access::kAll);
    for (size_t i = 0; i < kObjects; ++i) make_qp(i, i == kObjects - 1, false);
  }

  void make_region(size_t at, uint32_t offset, uint32_t length, uint32_t rights) {
    drop_region(at);
    const auto made = endpoint.engine().reg_mr(endpoint.pd(), block + offset, length, block + offset, rights);
    if (made) regions[at] = Mr{block + offset, length, made->lkey, made->rkey};
  }
  void drop_region(size_t at) {
    if (regions[at]) require(endpoint.engine().dereg_mr(regions[at]->lkey).has_value(), "a region stays");
    regions[at].reset();
  }
  void make_qp(size_t at, bool shared, bool few_completions) {
    if (qps[at]) return;
    soak::QpOptions options;
    options.cap = {16, 8, 2, 2, 64};
    options.send_cq = few_completions ? small_cq : cq;
    options.recv_cq = cq;
    if (shared) options.srq = srq;
    qps[at].emplace();
    qps[at]->qp = endpoint.make_qp(options);
    qps[at]->shared = shared;
  }
  void drop_qp(size_t at) {
    if (!qps[at]) return;
    collect();
    qps[at]->qp.destroy();
    qps[at].reset();
  }
  void collect() {
    for (const CqHandle each : {cq, small_cq}) {
      while (const auto wc = endpoint.poll(each)) completed(*wc);
    }
  }

  Endpoint& endpoint;

 private:
  Regions regions_;

  void completed(const Wc& wc) {
    const bool receive = wc.opcode == WcOpcode::kRecv || wc.opcode == WcOpcode::kRecvWriteImm;
    for (auto& each : qps) {
      if (!each || each->qp.number != wc.qp_num) continue;
      if (!receive) return each->sends.completed(wc.wr_id);
      return each->shared ? shared_receives.completed(wc.wr_id, false) : each->receives.completed(wc.wr_id);
    }
    require(false, "a completion of a queue pair that is gone");
  }

 public:
  const uint64_t block;
  const CqHandle cq, small_cq;
  const SrqHandle srq;
  Outstanding shared_receives;
  std::array<std::optional<Mr>, kObjects> regions;
  std::array<std::optional<FuzzedQp>, kObjects> qps;
  Seen seen;  // of what it sends
  std::deque<std::vector<std::byte>> sent;
};

class Run {
 public:
  Run(Source& in, const Flavour& flavour)
      : in_(in), flavour_(flavour), world_(in.byte()), sides_{Side(world_, flavour), Side(world_, flavour)} {
    world_.network().on_sent([this](const PacketView& packet) { watch(packet); });
    for (size_t i = 0; i < kObjects; ++i) {
      soak::connect(sides_[0].qps[i]->qp, sides_[1].qps[i]->qp, patience());
    }
  }

  void run() {
    for (size_t i = 0; i < kMaxSteps && !in_.empty(); ++i) {
      Side& side = sides_[in_.below(2)];
      step(side);
      world_.pump();
      if (in_.below(4) != 0) continue;  // completions pile up meanwhile
      for (Side& each : sides_) each.collect();
    }
    for (Side& each : sides_) require_counters(each.endpoint.look());
    require_end(world_, sides_[0].endpoint, sides_[1].endpoint);
    for (Side& each : sides_) each.collect();
    for (Side& each : sides_) {
      for (size_t i = 0; i < kObjects; ++i) each.drop_qp(i);
      for (size_t i = 0; i < kObjects; ++i) each.drop_region(i);
    }
  }

 private:
  static soak::ConnectOptions patience() {
    soak::ConnectOptions options;
    options.retry_cnt = 2;
    options.rnr_retry = 3;
    return options;
  }
  Side& peer_of(const Side& side) { return &side == &sides_[0] ? sides_[1] : sides_[0]; }

  void watch(const PacketView& packet) {
    Side& side = sides_[packet.from == sides_[0].endpoint.index() ? 0 : 1];
    note(side.seen, packet, flavour_.secured);
    side.sent.emplace_back(packet.bytes.begin(), packet.bytes.end());
    if (side.sent.size() > kRemembered) side.sent.pop_front();
  }

  void step(Side& side) {
    switch (in_.below(16)) {
      case 0:
        return side.make_qp(in_.below(kObjects), in_.bit(), in_.bit());
      case 1:
        return in_.below(4) == 0 ? side.drop_qp(in_.below(kObjects)) : modify(side);
      case 2:
        return connect(side);
      case 3:
      case 4:
      case 5:
        return send(side);
      case 6:
        return receive(side);
      case 7:
        return regions(side);
      case 8:
        return world_.run_for(micros(in_.byte()));
      case 9:
        return world_.run_for(millis(in_.byte()));
      case 10:
        return weather(side);
      case 11:
        return objects(side);
      case 12:
      case 13:
        return repeat(side);
      default:
        return in_.bit() ? data(side) : control(side);
    }
  }

  // ---- commands

  // Wild attributes; the engine refuses most.
  void modify(Side& side) {
    auto& each = side.qps[in_.below(kObjects)];
    if (!each) return;
    side.collect();
    QpAttr attr;
    attr.state = static_cast<QpState>(in_.below(7));
    attr.dgid = peer_of(side).endpoint.gid(in_.below(2));
    attr.dest_qpn = in_.near(each->qp.number);
    attr.sgid_index = in_.below(4);
    attr.access_flags = in_.byte();
    attr.timeout = in_.byte() % 12;
    attr.retry_cnt = in_.byte() % 3;
    attr.rnr_retry = in_.byte() % 7;
    attr.min_rnr_timer = in_.byte() % 14;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = in_.byte();
    const uint32_t mask = in_.bit() ? qp_mask::kState : qp_mask::kState | in_.word();
    const Status done = each->qp.modify(attr, mask);
    if (done && attr.state == QpState::kReset) forget(side, *each);
  }
  // Completions of before the reset may still come; what was outstanding does not have to.
  static void forget(Side& side, FuzzedQp& each) {
    side.collect();
    each.sends.clear();
    each.receives.clear();
  }

  void connect(Side& side) {
    auto& one = side.qps[in_.below(kObjects)];
    auto& other = peer_of(side).qps[in_.below(kObjects)];
    if (!one || !other) return;
    side.collect();
    peer_of(side).collect();
    for (const auto& [at, from, to] : {std::tuple{&side, &*one, &*other}, {&peer_of(side), &*other, &*one}}) {
      if (from->qp.to_reset()) forget(*at, *from);
      if (!from->qp.to_init() || !from->qp.to_rtr(to->qp, patience())) continue;
      if (in_.below(8) != 0) (void)from->qp.to_rts(patience());
    }
  }

  // Of a region that may be gone, and now and then beyond it.
  Sge sge(const Side& side, uint32_t length) {
    const auto& region = side.regions[in_.below(kObjects)];
    const uint32_t offset = in_.byte() * 16U;
    if (!region) return {side.block, length, in_.word()};
    return region->sge(in_.below(32) == 0 ? region->length - 4 : offset, length);
  }

  void send(Side& side) {
    constexpr Opcode kOpcodes[] = {Opcode::kWrite, Opcode::kWriteImm,    Opcode::kSend,     Opcode::kSendImm,
                                   Opcode::kRead,  Opcode::kCompareSwap, Opcode::kFetchAdd, Opcode::kSendInv};
    auto& each = side.qps[in_.below(kObjects)];
    if (!each) return;
    SendWr wr;
    wr.wr_id = next_id_++;
    wr.opcode = kOpcodes[in_.below(std::size(kOpcodes))];
    wr.flags = in_.byte() & 15;
    const bool atomic = wr.opcode == Opcode::kCompareSwap || wr.opcode == Opcode::kFetchAdd;
    const uint32_t length = atomic ? 8 : (wr.flags & send_flag::kInline) != 0 ? in_.byte() : in_.byte() * 40U;
    std::vector<Sge> sges(atomic ? 1 : in_.below(3));
    for (Sge& one : sges) one = sge(side, length);
    if ((wr.flags & send_flag::kInline) != 0) {  // no key is looked at: the program's own fault
      for (Sge& one : sges) one.addr = side.block;
    }
    wr.sges = sges;
    const auto& remote = peer_of(side).regions[in_.below(kObjects)];
    wr.remote_addr = remote ? remote->addr + in_.byte() * 8U : in_.wide();
    wr.rkey = remote ? remote->rkey : in_.word();
    wr.imm_or_invalidate = wr.opcode == Opcode::kSendInv ? wr.rkey : in_.byte();
    wr.compare_or_add = in_.byte();
    wr.swap = in_.byte();
    if (each->qp.post(wr)) each->sends.posted(wr.wr_id);
  }

  void receive(Side& side) {
    auto& each = side.qps[in_.below(kObjects)];
    const uint64_t wr_id = next_id_++;
    const std::vector<Sge> sges{sge(side, in_.byte() * 64U)};
    if (in_.bit()) {
      if (side.endpoint.post_srq_recv(side.srq, wr_id, sges)) side.shared_receives.posted(wr_id);
    } else if (each && each->qp.post_recv(wr_id, sges)) {
      each->receives.posted(wr_id);
    }
  }

  void regions(Side& side) {
    const size_t at = in_.below(kObjects);
    if (in_.bit()) return side.drop_region(at);
    const uint32_t offset = in_.byte() * 8U;
    const uint32_t length = in_.byte() * 80U;
    const auto rights = in_.byte() & access::kAll;
    if (!side.regions[at] || in_.bit()) return side.make_region(at, offset, length, rights);
    Mr& mr = *side.regions[at];
    const std::array<uint64_t, 3> range{side.block + offset, length, side.block + offset};
    const auto again = side.endpoint.engine().rereg_mr(mr.lkey, std::nullopt, range, rights);
    if (again) mr = Mr{side.block + offset, length, again->lkey, again->rkey};
  }

  void objects(Side& side) {
    Engine& engine = side.endpoint.engine();
    switch (in_.below(5)) {
      case 0:
        (void)engine.arm_cq(side.cq, in_.bit());
        return;
      case 1:
        (void)engine.resize_cq(side.cq, 16 + in_.below(64));
        return;
      case 2:
        (void)engine.modify_srq(side.srq, std::nullopt, in_.below(10));
        return;
      case 3:
        return engine.on_receive_overflow(side.endpoint.now(), in_.byte());
      default:
        return engine.on_send_error(side.endpoint.now(), in_.below(3));
    }
  }

  // ---- the network

  void weather(Side& side) {
    soak::Faults& faults = world_.network().faults(side.endpoint.index(), peer_of(side).endpoint.index());
    const double share = in_.byte() / 256.0;
    switch (in_.below(8)) {
      case 0:
        return side.endpoint.set_link(in_.below(2), in_.bit(), in_.bit());
      case 1:
        faults.loss = share;
        return;
      case 2:
        faults.duplicate = share;
        return;
      case 3:
        faults.reorder = share;
        faults.reorder_delay = micros(in_.byte() * 16);
        return;
      case 4:
        faults.corrupt = share;
        return;
      case 5:
        faults.truncate = share;
        return;
      case 6:
        faults.ce = share;
        return;
      default:
        return world_.network().stop_faults();
    }
  }

  // ---- the attacker: what `side` seems to send

  void deliver_as(Side& side, std::vector<std::byte> bytes) {
    if (!bytes.empty()) deliver(side.endpoint, peer_of(side).endpoint, in_.below(2), std::move(bytes));
  }

  void repeat(Side& side) {
    if (side.sent.empty()) return;
    std::vector<std::byte> bytes = side.sent[in_.below(static_cast<uint32_t>(side.sent.size()))];
    for (uint32_t n = in_.below(4); n > 0; --n) {
      bytes[in_.below(static_cast<uint32_t>(std::min<size_t>(bytes.size(), 128)))] ^= std::byte{in_.byte()};
    }
    if (in_.below(16) == 0) bytes.resize(in_.below(static_cast<uint32_t>(bytes.size())));
    if (in_.below(4) != 0 && bytes.size() >= wire::kTrailerBytes) soak::Network::resign(bytes);
    deliver_as(side, std::move(bytes));
  }

  wire::Common header(const Side& side, wire::Type type) {
    wire::Common header;
    header.type = type;
    if (in_.below(32) == 1) header.version = in_.byte() & 15;
    header.flags = in_.byte();
    header.path = static_cast<uint8_t>(in_.below(5));
    header.epoch = in_.byte();
    const bool numbered = type > wire::Type::kVersion;
    header.dcid = numbered || in_.bit() ? side.seen.dcid : in_.word();
    const auto& numbers = type == wire::Type::kData ? side.seen.pseq : side.seen.control;
    header.pseq = in_.near(numbers[header.path]);
    header.ts = in_.near(side.seen.ts);
    return header;
  }

  void data(Side& side) {
    constexpr uint8_t kOps[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 17, 18, 19, 20, 21, 22};
    const auto& to = peer_of(side).qps[in_.below(kObjects)];
    const auto& region = peer_of(side).regions[in_.below(kObjects)];
    wire::Common common = header(side, wire::Type::kData);
    common.flags &= static_cast<uint8_t>(~wire::flag::kExtension);
    wire::Data data;
    data.op = static_cast<wire::DataOp>(kOps[in_.below(std::size(kOps))]);
    data.cpsn = in_.near(side.seen.cpsn);
    data.stream = static_cast<uint16_t>(to ? to->qp.number : in_.half());
    data.msn = in_.near(0);
    data.offset = in_.below(4) == 0 ? in_.word() : in_.byte();
    data.length = in_.below(4) == 0 ? in_.word() : in_.byte() * 8U;
    data.va = region ? region->addr + in_.byte() : in_.wide();
    data.rkey = region ? region->rkey : in_.word();
    data.rqsn = in_.near(0);
    data.rdslot = in_.near(0);
    data.imm = in_.byte();
    data.operand = in_.byte();
    data.status = static_cast<wire::NakCode>(in_.below(12));
    std::vector<std::byte> out(wire::kMaxHeaderBytes);
    out.resize(wire::encode_data(common, data, out.data()));
    if (wire::is_stream_control(data.op)) {
      wire::StreamControl stream;
      stream.src_qpn = in_.near(to ? to->qp.number : 0);
      stream.dst_qpn = to ? to->qp.number : in_.word();
      stream.sq_psn = in_.bit() ? 0x123456 : in_.byte();
      stream.incarnation = in_.near(side.seen.incarnation);
      stream.credit_limit = in_.near(0);
      stream.rd_atomic = in_.byte();
      stream.min_rnr_timer = in_.byte() & 31;
      stream.reason = static_cast<wire::StopReason>(in_.below(6));
      stream.code = static_cast<wire::NakCode>(in_.below(11));
      const size_t at = out.size();
      out.resize(at + wire::kStreamControlBytes);
      wire::encode_stream_control(stream, out.data() + at);
    } else {
      const auto payload = in_.bytes(64);
      out.insert(out.end(), payload.begin(), payload.end());
    }
    deliver_as(side, signed_copy(out));
  }

  // A header of any type with any bytes behind it; INITs are as long as they must be.
  void control(Side& side) {
    const auto type = static_cast<wire::Type>(in_.below(14));
    std::vector<std::byte> out(wire::kCommonBytes);
    wire::encode_common(header(side, type), out.data());
    const auto body = in_.bytes(200);
    out.insert(out.end(), body.begin(), body.end());
    if (type <= wire::Type::kInitAck && out.size() >= 20) {
      const std::array<std::byte, 4> magic{std::byte{0x6d}, std::byte{0x52}, std::byte{0x4f},
                                           std::byte{0x43}};
      if (in_.below(8) != 0) std::ranges::copy(magic, out.begin() + wire::kCommonBytes);
      out.resize(std::max(out.size(), wire::kMinInitBytes));
    }
    deliver_as(side, signed_copy(out));
  }

  Source& in_;
  const Flavour flavour_;
  World world_;
  std::array<Side, 2> sides_;
  uint64_t next_id_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Source in(data, size);
  const Flavour flavour = Flavour::of(in.byte());
  Run(in, flavour).run();
  return 0;
}
