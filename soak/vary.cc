// What applications do beside their work and what must have no effect on it: queue pairs are drained and
// resumed, regions get other places, keys and rights while nobody uses them, CQs change their capacity. And
// one thing that must not hurt either: a network that promises more receives than there are, so that
// receivers refuse (RNR) and senders start messages again.
#include <fmt/format.h>

#include <algorithm>

#include "soak/run.h"

namespace mroce::soak {

void Run::vary(Side& side) {
  if (o_.drains && !final_ && rng_.chance(0.02)) drain(side);
  if (o_.reregisters && rng_.chance(0.1)) reregister(*side.in);
  if (o_.resizes && rng_.chance(0.02)) resize(*cqs_[rng_.below(cqs_.size())]);
}

void Run::drain(Side& side) {
  if (side.draining || side.qp.state() != QpState::kRts) return;
  QpAttr attr;
  attr.state = QpState::kSqd;
  if (!side.qp.modify(attr, qp_mask::kState | qp_mask::kEnSqdAsyncNotify))
    oracle_.report("post", "SQD was refused");
  counted(FaultKind::kDrain);
  side.draining = true;
  side.drained = false;
  if (!side.waits_for_drain) side.waits_for_drain = rng_.chance(0.7);
}

// Some wait until they are told that nothing is under way, and a little longer; others change their mind.
void Run::resume_drained() {
  for (const auto& link : links_) {
    for (Side& side : link->side) {
      if (!side.draining) continue;
      if (!side.alive || side.qp.state() != QpState::kSqd) {
        side.draining = side.drained = false;
        continue;
      }
      const bool waits = *side.waits_for_drain;
      if (waits && side.endpoint->take_event(EventKind::kSqDrained, side.user)) side.drained = true;
      if (!rng_.chance(0.1) || (waits && !side.drained)) continue;
      side.draining = side.drained = false;
      QpAttr attr;
      attr.state = QpState::kRts;
      if (!side.qp.modify(attr, qp_mask::kState)) oracle_.report("post", "RTS after SQD was refused");
      if (waits && side.endpoint->take_event(EventKind::kSqDrained, side.user))
        oracle_.report("drained", "told twice that a queue pair is drained");
    }
  }
}

void Run::reregister(Flow& flow) {
  const bool idle = flow.next_post > 0 && flow.next_end == flow.next_post && !flow.failed;
  if (o_.varied && flow.reregistered == flow.next_post) return;
  flow.reregistered = flow.next_post;
  if (!idle || !flow.requester->alive || !flow.responder->alive || flow.requester->link->disturbed) return;
  Endpoint& endpoint = *flow.responder->endpoint;
  Mr& region = flow.region;
  counted(FaultKind::kReregister);
  Result<MrInfo> keys = fail(Errc::kNotFound);
  const uint32_t old_key = region.rkey;
  switch (rng_.below(3)) {
    case 0: {  // it moves, and the peer does not notice
      const uint64_t host = endpoint.memory().allocate(region.length);
      const auto from = endpoint.memory().bytes(flow.host, region.length);
      std::copy(from.begin(), from.end(), endpoint.memory().bytes(host, region.length).begin());
      std::fill(from.begin(), from.end(), std::byte{0xEE});
      keys = endpoint.engine().rereg_mr(
          region.lkey, std::nullopt, std::array<uint64_t, 3>{host, region.length, region.addr}, std::nullopt);
      oracle_.region_moved(flow, host);
      break;
    }
    case 1: {  // it gives up a right that nobody needs, or has it again
      const uint32_t rights = rng_.chance(0.5) ? access::kAll : access::kAll & ~access::kRemoteAtomic;
      keys = endpoint.engine().rereg_mr(region.lkey, std::nullopt, std::nullopt, rights);
      break;
    }
    default:
      if (endpoint.engine().dereg_mr(region.lkey))
        keys = endpoint.engine().reg_mr(endpoint.pd(), flow.host, region.length, region.addr, access::kAll);
      break;
  }
  if (!keys) return oracle_.report("post", "a registration was refused");
  region.lkey = keys->lkey;
  region.rkey = keys->rkey;
  for (size_t i = flow.next_post; i < flow.ops.size(); ++i) {
    Op& op = flow.ops[i];
    if (op.rkey == old_key) op.rkey = region.rkey;
    if (op.flaw == Flaw::kUnknownKey && region.rkey != old_key) op.rkey = old_key;
  }
}

// The application keeps room for all that it has posted; no less can be asked for than there is.
void Run::resize(Cq& cq) {
  if (o_.solicited || !cq.endpoint->running()) return;  // the former let completions lie
  Engine& engine = cq.endpoint->engine();
  const uint32_t depth = engine.cq_depth(cq.handle);
  if (depth > 1 && engine.resize_cq(cq.handle, depth - 1))
    oracle_.report("post", "a CQ became smaller than what it holds");
  uint64_t needed = depth + o_.max_recv_wr;
  for (const auto& link : links_) {
    for (const Side& side : link->side) {
      if (side.endpoint == cq.endpoint && side.alive) needed += o_.max_send_wr + o_.max_recv_wr + 24;
    }
  }
  if (!engine.resize_cq(cq.handle, static_cast<uint32_t>(needed + rng_.below(100))))
    oracle_.report("post", "resizing a CQ was refused");
  counted(FaultKind::kResize);
}

void Run::overcommit_credits() {
  oracle_.allow_rewinds();
  world_.network().set_meddler(
      [this, more = o_.overcommit](const PacketView& packet, std::vector<std::byte>& bytes) {
        if (packet.ack() == nullptr || packet.ack()->ncredits == 0) return;
        counted(FaultKind::kFalseCredit);
        wire::Ack ack = *packet.ack();
        for (uint32_t i = 0; i < ack.ncredits; ++i) ack.credits[i].limit += more;
        wire::encode_ack(*packet.header(), ack, bytes);
        Network::resign(bytes);
      });
}

}  // namespace mroce::soak
