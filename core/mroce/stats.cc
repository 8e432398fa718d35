// What the engine tells about itself.
#include "core/mroce/engine_impl.h"

namespace mroce {

namespace {
std::string_view name_of(Connection::State state) {
  switch (state) {
    case Connection::State::kInitSent:
      return "INIT_SENT";
    case Connection::State::kOpen:
      return "OPEN";
    case Connection::State::kDraining:
      return "DRAINING";
    case Connection::State::kClosing:
      return "CLOSING";
    case Connection::State::kTimeWait:
      return "TIME_WAIT";
    case Connection::State::kClosed:
      return "CLOSED";
  }
  return "?";
}

size_t memory_of(const Connection& c) {
  size_t bytes = sizeof c + (c.security == nullptr ? 0 : c.security->memory_bytes()) +
                 (c.opening == nullptr ? 0 : sizeof(Opening)) + c.received.memory_bytes() +
                 c.rx_paths.capacity() * sizeof(RxPath) + c.demands.capacity() * sizeof(Demand) +
                 c.paths.capacity() * sizeof(Path) + c.peer_ports.capacity() * sizeof(wire::InitPort) +
                 c.tx.capacity() * sizeof(TxPacket) + c.rtx.capacity() * sizeof(uint64_t) +
                 c.control.capacity() * sizeof(ControlMessage) + c.ready.capacity() * sizeof(uint32_t) +
                 (c.credit_dirty.capacity() + c.reclaim.capacity()) * sizeof(uint16_t) +
                 c.naks.capacity() * sizeof(wire::Nak) + c.probe_acks.capacity() * sizeof(wire::ProbeAck);
  for (const Path& p : c.paths) {
    bytes += p.sent.capacity() * sizeof(SentPacket) + p.rtx.capacity() * sizeof(uint64_t);
  }
  return bytes;
}
}  // namespace

ConnectionStats Engine::Impl::stats_of(const Connection& c) const {
  ConnectionStats stats;
  stats.local_id = c.local_id;
  stats.local = config.ports[c.port].address;
  stats.remote = c.remote;
  stats.state = std::string(name_of(c.state));
  stats.payload_mtu = c.payload_mtu;
  stats.security = c.mode();
  stats.opened = c.opened;
  stats.first_data = c.first_data == kNever ? Time{} : c.first_data;
  stats.last_data = std::max(c.last_data, c.last_sent);
  stats.memory_bytes = memory_of(c);
  stats.peer_receive_buffer = c.peer_receive_buffer;
  stats.counters = c.counters;
  for (const auto& [key, qp] : qps) stats.streams += qp->tx.conn == &c || qp->rx.conn == &c ? 1u : 0u;
  for (const Path& p : c.paths) {
    PathStats path;
    path.id = p.id;
    path.plane = p.plane;
    path.port = p.port;
    path.remote = p.to.ip;
    path.entropy = p.entropy;
    path.state = p.state;
    path.srtt = p.rtt.srtt;
    path.min_rtt = p.rtt.min;
    path.cwnd_bytes = static_cast<uint64_t>(p.cc.cwnd * c.full_packet());
    path.in_flight = p.inflight;
    path.counters = p.counters;
    stats.paths.push_back(path);
  }
  return stats;
}

std::vector<ConnectionStats> Engine::connection_stats() const {
  std::vector<ConnectionStats> result = impl_->finished;
  for (const auto& c : impl_->connections) {
    if (c && c->opened != Time{}) result.push_back(impl_->stats_of(*c));
  }
  return result;
}

}  // namespace mroce
