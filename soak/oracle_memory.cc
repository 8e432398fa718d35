#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "soak/oracle.h"

namespace mroce::soak {

// ---- who owns which addresses
// -----------------------------------------------------------------------------------

void Oracle::watch(Endpoint& endpoint) {
  WorldMemory& memory = endpoint.memory();
  memory.on_place = [this, &endpoint](const Placement& placement, std::span<const std::byte> data) {
    on_place(endpoint, placement, data);
  };
  memory.on_fetch = [this, &endpoint](uint64_t addr, uint32_t length) { on_fetch(endpoint, addr, length); };
  memory.on_atomic = [this, &endpoint](const AtomicExecution& execution) { on_atomic(endpoint, execution); };
}

void Oracle::add_link(Link& link) {
  for (Flow& flow : link.flow) {
    Area area;
    area.end = flow.host + flow.region.length;
    area.flow = &flow;
    areas_[flow.responder->endpoint->index()][flow.host] = area;
    const auto bytes = flow.responder->endpoint->memory().bytes(flow.host, flow.region.length);
    flow.initial.assign(bytes.begin(), bytes.end());
    for (size_t i = 0; i < flow.ops.size(); ++i) {
      if (flow.ops[i].is_atomic()) atomics_[flow.ops[i].operand] = {&flow, i};
    }
  }
}

void Oracle::add_pool(ReceivePool& pool) {
  Area area;
  area.end = pool.memory.addr + pool.memory.length;
  area.kind = Area::Kind::kReceive;
  area.pool = &pool;
  areas_[pool.endpoint->index()][pool.memory.addr] = area;
}

void Oracle::add_words(Endpoint& endpoint, const Mr& words) {
  Area area;
  area.end = words.addr + words.length;
  area.kind = Area::Kind::kWords;
  areas_[endpoint.index()][words.addr] = area;
  for (uint32_t at = 0; at < words.length; at += 8) words_[{endpoint.index(), words.addr + at}] = 0;
}

void Oracle::remove_link(Link& link) {
  for (Flow& flow : link.flow) {
    check_final_memory(flow);
    region_gone(flow);
    for (Op& op : flow.ops) {
      if (op.is_atomic()) atomics_.erase(op.operand);
    }
  }
  for (Side& side : link.side) {
    if (side.own_receives) areas_[side.endpoint->index()].erase(side.own_receives->memory.addr);
  }
}

void Oracle::region_moved(Flow& flow, uint64_t host) {
  Areas& areas = areas_[flow.responder->endpoint->index()];
  Area area = areas.at(flow.host);
  areas.erase(flow.host);
  area.end = host + flow.region.length;
  areas[host] = area;
  flow.host = host;
}

Oracle::Area* Oracle::area_of(uint32_t endpoint, uint64_t addr, uint64_t length) {
  Areas& areas = areas_[endpoint];
  auto it = areas.upper_bound(addr);
  if (it == areas.begin()) return nullptr;
  --it;
  return addr + length <= it->second.end ? &it->second : nullptr;
}

// ---- placements
// -------------------------------------------------------------------------------------------------

bool Oracle::may_place(const Side& side, std::string_view what) {
  if (!side.alive) {
    report("stale", fmt::format("{} for a queue pair that is destroyed", what));
    return false;
  }
  const QpState state = side.qp.state();
  if (state == QpState::kErr || state == QpState::kReset || state == QpState::kInit) {
    report("stale", fmt::format("{} for a queue pair that cannot receive", what));
    return false;
  }
  return true;
}

void Oracle::check_running(const Flow& flow, std::string_view what) {
  if (flow.requester->drained)
    report("drained", fmt::format("{} for queue pair {:#x} of {}, which is drained", what,
                                  flow.requester->qp.number, flow.requester->endpoint->name()));
}

void Oracle::on_place(Endpoint& endpoint, const Placement& placement, std::span<const std::byte> data) {
  if (placement.length == 0) return;
  Area* area = area_of(endpoint.index(), placement.addr, placement.length);
  if (area == nullptr) {
    report("stale", fmt::format("{} bytes were placed at {:#x} of {}, where nobody waits for any",
                                placement.length, placement.addr, endpoint.name()));
    return;
  }
  switch (area->kind) {
    case Area::Kind::kRegion: {
      Placement as_named = placement;
      as_named.addr += area->flow->region.addr - area->flow->host;
      place_in_region(*area->flow, as_named, data);
      return;
    }
    case Area::Kind::kReceive: {
      const uint64_t slot = (placement.addr - area->pool->memory.addr) / std::max(1u, area->pool->bytes_each);
      const auto& waiting = area->pool->outstanding;
      if (std::none_of(waiting.begin(), waiting.end(), [&](const Receive& r) { return r.slot == slot; })) {
        report("stale", fmt::format("a SEND was placed in slot {} of a receive that is not posted", slot));
      }
      return;
    }
    case Area::Kind::kOperation:
      if (!area->op->reads()) {
        report("stale",
               fmt::format("the source of a work request was written: {}", describe(*area->flow, *area->op)));
      } else {
        may_place(*area->flow->requester, "a response");
        check_running(*area->flow, "a response");
      }
      area->op->landed_bytes += placement.length;
      if (area->op->landed_bytes > area->op->length) {
        report("placed_twice",
               fmt::format("more bytes than asked for: {}", describe(*area->flow, *area->op)));
      }
      return;
    case Area::Kind::kWords:
      report("stale", fmt::format("bytes were placed over the words for atomics of {}", endpoint.name()));
      return;
  }
}

namespace {
// Payloads of packets are multiples of this, except the last.
constexpr uint64_t kGranule = 32;

// The payload of a full packet of this flow; 0: not known. Two endpoints may have more than one connection,
// if both began at once on different planes, and others may have the same address.
uint32_t payload_of(const Flow& flow) {
  uint32_t payload = 0;
  for (const ConnectionStats& stats : flow.responder->endpoint->look().connection_stats()) {
    for (uint32_t port = 0; port < flow.requester->endpoint->ports(); ++port) {
      if (stats.remote.ip != flow.requester->endpoint->gid(port)) continue;
      if (payload != 0 && payload != stats.payload_mtu) return 0;
      payload = stats.payload_mtu;
    }
  }
  return payload;
}
}  // namespace

void Oracle::place_in_region(Flow& flow, const Placement& placement, std::span<const std::byte> data) {
  if (!may_place(*flow.responder, "a WRITE")) return;
  check_running(flow, "a WRITE");
  if (!std::exchange(flow.mtu_asked, true)) flow.mtu = payload_of(flow);
  // What ended in another way than by success may still have been under way.
  while (flow.first_open < flow.next_end && flow.ops[flow.first_open].end == Op::End::kSuccess)
    ++flow.first_open;
  // Two that write the same bytes to the same place look alike: who has none of them yet comes first.
  for (const bool again : {false, true}) {
    for (size_t i = flow.first_open; i < flow.next_post && (!again || rewinds_); ++i) {
      if (flow.ops[i].end != Op::End::kSuccess && try_place(flow, flow.ops[i], placement, data, again))
        return;
    }
  }
  std::string text =
      fmt::format("{} bytes at {:#x} belong to no work request that is under way, or came twice",
                  placement.length, placement.addr);
  for (const Op& op : flow.ops) {
    if (op.is_write() && placement.addr >= op.remote &&
        placement.addr + placement.length <= op.remote + op.length &&
        is_pattern(data, op.pattern, placement.addr - op.remote)) {
      text += "; they look like " + describe(flow, op);
    }
  }
  report("stale", text);
}

// `again`: as bytes that were placed before, which a message that starts again may do.
bool Oracle::try_place(Flow& flow, Op& op, const Placement& placement, std::span<const std::byte> data,
                       bool again) {
  if (!op.posted || !op.is_write() || op.flaw != Flaw::kNone || op.length == 0) return false;
  if (placement.addr < op.remote || placement.addr + placement.length > op.remote + op.length) return false;
  const uint64_t offset = placement.addr - op.remote;
  const bool last = offset + placement.length == op.length;
  if (offset % kGranule != 0 || (!last && placement.length % kGranule != 0)) return false;
  const auto begin = static_cast<int64_t>(offset / kGranule);
  const auto end = static_cast<int64_t>((offset + placement.length + kGranule - 1) / kGranule);
  if (op.placed.empty()) op.placed.resize((op.length + kGranule - 1) / kGranule);
  const bool twice =
      std::find(op.placed.begin() + begin, op.placed.begin() + end, true) != op.placed.begin() + end;
  if (!is_pattern(data, op.pattern, offset)) return false;
  if (twice != again) return false;
  // It may be one before this that starts again.
  if (!again && rewinds_ && last && flow.holds_tails && !all_before_is_placed(flow, op)) return false;
  if (!twice) op.placed_bytes += placement.length;
  std::fill(op.placed.begin() + begin, op.placed.begin() + end, true);
  if (last != placement.tail)
    report("tail_order", fmt::format("wrong call for a tail: {}", describe(flow, op)));
  if (last && flow.holds_tails) check_tail(flow, op);
  return true;
}

bool Oracle::all_before_is_placed(const Flow& flow, const Op& op) const {
  for (size_t i = flow.first_open; i < flow.ops.size(); ++i) {
    const Op& earlier = flow.ops[i];
    if (&earlier >= &op) return true;
    if (earlier.end == Op::End::kSuccess) continue;
    if (earlier.is_write() && earlier.placed_bytes != earlier.length) return false;
    if (earlier.is_atomic() && earlier.executions == 0) return false;
    if (earlier.flaw != Flaw::kNone && earlier.flaw != Flaw::kLocalKey) return false;
  }
  return true;
}

void Oracle::check_tail(Flow& flow, const Op& op) {
  if (op.placed_bytes != op.length) {
    report("tail_order", fmt::format("the tail came before the rest of its message: {}", describe(flow, op)));
  }
  if (!all_before_is_placed(flow, op)) {
    report("tail_order", fmt::format("the tail came before earlier messages: {}", describe(flow, op)));
  }
}

void Oracle::on_fetch(Endpoint& endpoint, uint64_t addr, uint32_t length) {
  if (length == 0) return;
  const Area* area = area_of(endpoint.index(), addr, length);
  if (area == nullptr || area->kind == Area::Kind::kReceive) {
    report("stale", fmt::format("{} bytes were read at {:#x} of {}, which nobody offers", length, addr,
                                endpoint.name()));
  } else if (area->kind == Area::Kind::kOperation) {
    if (area->op->reads())
      report("stale", fmt::format("the target of a READ was read: {}", describe(*area->flow, *area->op)));
    if (!area->op->is_inline()) check_running(*area->flow, "a fetch");
  }
}

void Oracle::on_atomic(Endpoint& endpoint, const AtomicExecution& execution) {
  const auto word = words_.find({endpoint.index(), execution.addr});
  const auto owner = atomics_.find(execution.operand);
  if (word == words_.end() || owner == atomics_.end()) {
    report("atomic", fmt::format("an unknown atomic happened at {:#x}", execution.addr));
    return;
  }
  Flow& flow = *owner->second.flow;
  Op& op = flow.ops[owner->second.index];
  if (execution.original != word->second) {
    report("atomic", fmt::format("found {:#x} where the history says {:#x}: {}", execution.original,
                                 word->second, describe(flow, op)));
  }
  word->second = endpoint.memory().word(execution.addr);
  may_place(*flow.responder, "an atomic");
  check_running(flow, "an atomic");
  const bool matches = op.posted && op.remote == execution.addr && op.compare == execution.compare &&
                       execution.is_swap == (op.opcode == Opcode::kCompareSwap) &&
                       (op.flaw == Flaw::kNone || op.flaw == Flaw::kLocalKey);
  if (!matches) report("atomic", fmt::format("nobody asked for this: {}", describe(flow, op)));
  if (++op.executions > 1) report("atomic_twice", describe(flow, op));
  if (!all_before_is_placed(flow, op)) {
    report("order", fmt::format("an atomic overtook earlier messages: {}", describe(flow, op)));
  }
  for (size_t i = owner->second.index + 1; i < flow.next_post; ++i) {
    if (flow.ops[i].executions != 0)
      report("order", fmt::format("a later atomic came first: {}", describe(flow, op)));
  }
  op.original = execution.original;
}

// ---- contents of a region
// ---------------------------------------------------------------------------------------

// WRITEs that may have put something at a range when `reader` (none: the final state) sees it, in posting
// order.
std::vector<const Op*> Oracle::candidates(const Flow& flow, uint64_t addr, uint64_t length,
                                          const Op* reader) const {
  std::vector<const Op*> result;
  bool behind_reader = false;
  for (const Op& op : flow.ops) {
    if (&op == reader) {
      behind_reader = true;
      continue;
    }
    if (!op.posted || (behind_reader && (op.flags & send_flag::kFence) != 0)) break;
    if (!op.is_write() || op.flaw != Flaw::kNone || op.length == 0) continue;
    if (op.remote < addr + length && addr < op.remote + op.length) result.push_back(&op);
  }
  return result;
}

// Of a part of a region that the same WRITEs cover everywhere: those whose bytes may stand there. A WRITE is
// certainly replaced by a later one that is done if it had ended before that was posted, or if the part lies
// in the last packet of the later one (tails come after everything before them).
Oracle::Allowed Oracle::allowed_at(const Flow& flow, const std::vector<const Op*>& writes, const Op* reader,
                                   uint64_t addr) const {
  Allowed allowed;
  uint64_t posted_last = 0;  // of the later ones that are done
  for (size_t k = writes.size(); k-- > 0;) {
    const Op& op = *writes[k];
    if (addr < op.remote || addr >= op.remote + op.length) continue;
    // Those before the reader are certainly done when it sees the region; in the final state, those that
    // succeeded.
    const bool done = reader != nullptr ? &op < reader : op.end == Op::End::kSuccess;
    if (op.end != Op::End::kSuccess || op.ended_tick >= posted_last) allowed.writes.push_back(&op);
    if (!done) continue;
    allowed.initial = false;
    posted_last = std::max(posted_last, op.posted_tick);
    if (!flow.holds_tails || flow.mtu == 0 || flow.requester->link->fragile) continue;
    if (addr - op.remote >= (op.length - 1) / flow.mtu * flow.mtu) break;
  }
  return allowed;
}

bool Oracle::is_allowed(const Flow& flow, const Allowed& allowed, std::span<const std::byte> bytes,
                        uint64_t addr) const {
  for (size_t at = 0; at < bytes.size();) {  // a mixture: as far as one of them goes, then the next
    const auto rest = bytes.subspan(at);
    size_t most = 0;
    for (const Op* op : allowed.writes)
      most = std::max(most, length_of_pattern(rest, op->pattern, addr + at - op->remote));
    if (allowed.initial) {
      const std::byte* initial = flow.initial.data() + (addr + at - flow.region.addr);
      const auto differs = std::mismatch(rest.begin(), rest.end(), initial).first;
      most = std::max(most, static_cast<size_t>(differs - rest.begin()));
    }
    if (most == 0) return false;
    at += most;
  }
  return true;
}

void Oracle::check_region(const Flow& flow, std::span<const std::byte> bytes, uint64_t addr,
                          const Op* reader) {
  const std::vector<const Op*> writes = candidates(flow, addr, bytes.size(), reader);
  const uint64_t end = addr + bytes.size();
  std::vector<uint64_t> cuts{addr, end};
  for (const Op* op : writes) {
    const uint64_t tail = flow.mtu == 0 ? 0 : (op->length - 1) / flow.mtu * flow.mtu;
    for (const uint64_t cut : {op->remote, op->remote + tail, op->remote + op->length}) {
      if (cut > addr && cut < end) cuts.push_back(cut);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto part = bytes.subspan(cuts[i] - addr, cuts[i + 1] - cuts[i]);
    if (is_allowed(flow, allowed_at(flow, writes, reader, cuts[i]), part, cuts[i])) continue;
    report("contents",
           fmt::format("bytes {} to {} of the region at {:#x} were put there by no allowed WRITE{}",
                       cuts[i] - flow.region.addr, cuts[i + 1] - flow.region.addr, flow.region.addr,
                       reader != nullptr ? "; seen by " + describe(flow, *reader) : ""));
    return;
  }
}

void Oracle::check_final_memory(Flow& flow) {
  if (flow.region_gone) return;
  const auto bytes = flow.responder->endpoint->memory().bytes(flow.host, flow.region.length);
  check_region(flow, bytes, flow.region.addr, nullptr);
}

void Oracle::check_read(Flow& flow, const Op& op) {
  std::vector<std::byte> bytes;
  WorldMemory& memory = flow.requester->endpoint->memory();
  for (const Sge& sge : op.sges) {
    const auto part = memory.bytes(sge.addr, sge.length);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  check_region(flow, bytes, op.remote, &op);
}

}  // namespace mroce::soak
