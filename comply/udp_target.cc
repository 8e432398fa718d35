#include "comply/udp_target.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace mroce::comply {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kConnectLimit{3};
constexpr std::chrono::seconds kAnswerLimit{5};
constexpr size_t kMaxDatagram = 65536;
constexpr uint32_t kPiece = 16384;  // of read_memory and write_memory

constexpr std::pair<uint32_t, const char*> kRights[] = {
    {1, "local_write"}, {2, "remote_write"}, {4, "remote_read"}, {8, "remote_atomic"}};

json rights(uint32_t access) {
  json out = json::array();
  for (const auto& [bit, name] : kRights) {
    if ((access & bit) != 0) out.push_back(name);
  }
  return out;
}

bool is_loopback(const Gid& gid) {
  return gid.is_v4_mapped() && gid.is_loopback();
}

// Commands that every target has: without them there is nothing to be tested. A `start` that asks for
// something is not among them: a limit or a mode may be unknown.
bool is_mandatory(const json& request) {
  constexpr std::string_view kMandatory[] = {"stop",         "create_mr", "read_memory",
                                             "write_memory", "create_qp", "connect_qp",
                                             "query_qp",     "post_recv", "poll"};
  const std::string command = request.value("cmd", "");
  if (command == "start")
    return request.value("limits", json::object()).empty() && request.value("mode", 0) == 0 &&
           !request.contains("psk");
  if (request.contains("srq")) return false;
  return std::find(std::begin(kMandatory), std::end(kMandatory), command) != std::end(kMandatory);
}

// What the network did with an earlier datagram, or a buffer that is full, is a loss. The rest would be the
// same with the next one.
bool is_loss(int error) {
  constexpr int kLosses[] = {ECONNREFUSED, EAGAIN, EINTR, ENOBUFS, ENOMEM, EMSGSIZE};
  return std::find(std::begin(kLosses), std::end(kLosses), error) != std::end(kLosses);
}

std::string cannot_bind(const Gid& address, int error) {
  return fmt::format("the tester cannot use its address {}: {}", net::to_string(address),
                     std::strerror(error));
}

}  // namespace

// ---- control

UdpTarget::UdpTarget(UdpTargetOptions options) : options_(options) {
  const auto unix_now = std::chrono::system_clock::now().time_since_epoch();
  unix_offset_ = std::chrono::duration_cast<Nanos>(unix_now) - Nanos(ns_of(now()));
}

tl::expected<std::unique_ptr<UdpTarget>, std::string> UdpTarget::open(const UdpTargetOptions& options) {
  std::unique_ptr<UdpTarget> target(new UdpTarget(options));
  if (auto done = target->connect_control(); !done) return tl::unexpected(done.error());
  for (const Gid& address : {target->address_, target->stranger_}) {
    if (auto socket = target->bind_udp(address, 0); !socket) return tl::unexpected(socket.error());
  }
  return target;
}

UdpTarget::~UdpTarget() = default;

tl::expected<void, std::string> UdpTarget::connect_control() {
  control_.reset();
  auto fd = connect_tcp(options_.control, Deadline::clock::now() + kConnectLimit);
  if (!fd) return tl::unexpected(fd.error());
  const Gid here = local_address(fd->get()).ip;
  address_ = options_.from.is_zero() ? here : options_.from;
  if (options_.from.is_zero() && is_loopback(here)) {
    // One of many, so that several runs on a host stay apart.
    const uint16_t port = local_address(fd->get()).port;
    address_.raw[13] = 77;
    address_.raw[14] = static_cast<uint8_t>(port >> 8);
    address_.raw[15] = static_cast<uint8_t>(std::clamp(port & 0xff, 3, 250));
  }
  stranger_ = address_;
  if (is_loopback(address_)) stranger_.raw[13] = 78;
  control_ = std::make_unique<LineSocket>(std::move(*fd));
  try {
    take_hello(ask({{"cmd", "hello"}, {"protocol", 1}}));
  } catch (const std::runtime_error& error) {  // TargetFailed, Unsupported, NotRun
    control_.reset();
    return tl::unexpected<std::string>(error.what());
  }
  return {};
}

void UdpTarget::take_hello(const json& hello) {
  if (number_of(hello, "protocol", UINT32_MAX) != 1U)
    throw TargetFailed("hello: `protocol` of the answer is not 1");
  const auto list = hello.find("features");
  if (list == hello.end() || !list->is_array())
    throw TargetFailed("hello: `features` of the answer is not a list");
  implementation_ = text_of(hello, "implementation", 200).value_or("a target without a name");
  features_.clear();
  for (const json& each : *list) {
    const auto feature = each.is_string() ? feature_named(each.get<std::string>()) : std::nullopt;
    if (feature) features_.push_back(*feature);
  }
}

tl::expected<std::string, std::string> UdpTarget::exchange(const std::string& line, Deadline deadline) {
  const Time began = now();
  auto answer = control_->write_line(line, deadline).and_then([&] { return control_->read_line(deadline); });
  waits_.total += now() - began;
  ++waits_.answers;
  if (!answer) control_.reset();  // what comes later would be taken for the answer to something else
  return answer;
}

json UdpTarget::ask(json request) {
  if (!control_) throw TargetFailed("there is no control connection");
  const Nanos left = answers_until_ == kNever ? kAnswerLimit : std::max(answers_until_ - now(), Nanos{0});
  const bool cut_short = left < kAnswerLimit;
  const std::string command = request.value("cmd", "");
  const auto line = exchange(request.dump(), Deadline::clock::now() + std::min<Nanos>(left, kAnswerLimit));
  if (!line && cut_short && now() >= answers_until_)
    throw NotRun(
        fmt::format("the control answers are slow: {} was not answered within the time limit of the "
                    "assertion",
                    command));
  if (!line) throw TargetFailed(fmt::format("{}: {}", command, line.error()));
  json answer = json::parse(*line, nullptr, false);
  const auto ok = answer.is_object() ? answer.find("ok") : answer.end();
  if (!answer.is_object() || ok == answer.end() || !ok->is_boolean()) {
    control_.reset();
    throw TargetFailed(fmt::format("{}: the answer is not of the protocol", command));
  }
  if (ok->get<bool>()) return answer;
  const std::string why = text_of(answer, "error", 500).value_or("no reason given");
  const auto unsupported = answer.find("unsupported");
  if (unsupported != answer.end() && unsupported->is_boolean() && unsupported->get<bool>()) {
    if (is_mandatory(request))
      throw NotRun(fmt::format("the target has no {}, which is mandatory: {}", command, why));
    throw Unsupported(fmt::format("{}: {}", command, why));
  }
  throw TargetFailed(fmt::format("{}: {}", command, why));
}

uint32_t UdpTarget::answer_number(const json& answer, std::string_view key, uint64_t most) {
  const auto number = number_of(answer, key, most);
  if (!number) throw TargetFailed(fmt::format("the answer has no {}", key));
  return static_cast<uint32_t>(*number);
}

bool UdpTarget::has(Feature feature) const {
  return std::find(features_.begin(), features_.end(), feature) != features_.end();
}

Started UdpTarget::start(const StartOptions& options) {
  if (!control_) {
    if (auto done = connect_control(); !done) throw NotRun(done.error());
  }
  json limits = json::object();
  const auto put = [&](const char* name, const std::optional<uint32_t>& value) {
    if (value) limits[name] = *value;
  };
  put("max_paths", options.limits.max_paths);
  put("max_payload", options.limits.max_payload);
  put("cpsn_window", options.limits.cpsn_window);
  put("max_rd_atomic", options.limits.max_rd_atomic);
  put("max_connections", options.limits.max_connections);
  put("key_update_packets", options.limits.key_update_packets);
  put("key_max_packets", options.limits.key_max_packets);
  json request = {{"cmd", "start"}, {"limits", limits}, {"mode", options.mode}};
  if (!options.psk.empty()) request["psk"] = hex_of(options.psk);
  if (options.seed) request["seed"] = *options.seed;
  json answer;
  try {
    answer = ask(std::move(request));
  } catch (const TargetFailed& error) {
    if (control_) throw;  // it refuses; else it has gone, or what it says is not of the protocol
    throw NotRun(error.what());
  }
  const Started out = take_started(answer);
  open_sockets(out);
  return out;
}

// Says which member is wrong: whoever writes a target sees this first.
Started UdpTarget::take_started(const json& answer) const {
  const auto number = [&](const char* key, uint64_t least, uint64_t most) {
    const auto found = number_of(answer, key, most);
    if (!found || *found < least)
      throw NotRun(fmt::format("start: `{}` of the answer is not a number from {} to {}", key, least, most));
    return *found;
  };
  Started out;
  const auto address = net::parse_address(text_of(answer, "address").value_or(""));
  if (!address) throw NotRun("start: `address` of the answer is not an IP address");
  if (net::family_of(*address) != net::family_of(address_))
    throw NotRun(fmt::format("start: `address` of the answer, {}, is not of the family of the tester's, {}",
                             net::to_string(*address), net::to_string(address_)));
  out.address = *address;
  out.port = static_cast<uint16_t>(number("port", 1, 65535));
  out.slot = static_cast<uint8_t>(number("slot", 0, 255));
  if (out.slot >= out.port)
    throw NotRun("start: `slot` of the answer is not below `port`, which is the base port and the slot");
  out.planes = static_cast<uint32_t>(number("planes", 1, 64));
  return out;
}

void UdpTarget::stop() {
  ask({{"cmd", "stop"}});
}

Region UdpTarget::create_mr(uint32_t length, uint32_t access) {
  const json answer = ask({{"cmd", "create_mr"}, {"length", length}, {"access", rights(access)}});
  const auto addr = wide_number_of(answer, "addr");
  if (!addr) throw TargetFailed("create_mr: the answer has no addr");
  return {answer_number(answer, "mr"), *addr, answer_number(answer, "rkey"), length};
}

void UdpTarget::destroy_mr(uint32_t mr) {
  ask({{"cmd", "destroy_mr"}, {"mr", mr}});
}

Bytes UdpTarget::read_memory(uint32_t mr, uint32_t offset, uint32_t length) {
  Bytes out;
  while (out.size() < length) {
    const uint32_t size = std::min<uint32_t>(kPiece, length - static_cast<uint32_t>(out.size()));
    const auto piece =
        bytes_of(ask({{"cmd", "read_memory"}, {"mr", mr}, {"offset", offset + out.size()}, {"length", size}}),
                 "bytes", kPiece);
    if (!piece || piece->size() != size) throw TargetFailed("read_memory: another number of bytes");
    out.insert(out.end(), piece->begin(), piece->end());
  }
  return out;
}

void UdpTarget::write_memory(uint32_t mr, uint32_t offset, std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min<size_t>(kPiece, bytes.size() - at));
    ask({{"cmd", "write_memory"}, {"mr", mr}, {"offset", offset + at}, {"bytes", hex_of(piece)}});
  }
}

uint32_t UdpTarget::create_srq(uint32_t max_wr) {
  return answer_number(ask({{"cmd", "create_srq"}, {"max_wr", max_wr}}), "srq");
}

QueuePair UdpTarget::create_qp(uint32_t max_send_wr, uint32_t max_recv_wr, std::optional<uint32_t> srq) {
  json request = {{"cmd", "create_qp"}, {"max_send_wr", max_send_wr}, {"max_recv_wr", max_recv_wr}};
  if (srq) request["srq"] = *srq;
  const json answer = ask(std::move(request));
  return {answer_number(answer, "qp"), answer_number(answer, "qpn", 0xffffff)};
}

void UdpTarget::connect_qp(uint32_t qp, const ConnectOptions& options) {
  ask({{"cmd", "connect_qp"},
       {"qp", qp},
       {"remote_address", net::to_string(options.remote_address)},
       {"remote_qpn", options.remote_qpn},
       {"sq_psn", options.sq_psn},
       {"rq_psn", options.rq_psn},
       {"to", options.to_rts ? "rts" : "rtr"},
       {"timeout", options.timeout},
       {"retry_cnt", options.retry_cnt},
       {"rnr_retry", options.rnr_retry},
       {"min_rnr_timer", options.min_rnr_timer},
       {"rd_atomic", options.rd_atomic},
       {"access", rights(options.access)}});
}

void UdpTarget::modify_qp(uint32_t qp, std::string_view state) {
  ask({{"cmd", "modify_qp"}, {"qp", qp}, {"state", state}});
}

std::string UdpTarget::query_qp(uint32_t qp) {
  return text_of(ask({{"cmd", "query_qp"}, {"qp", qp}}), "state").value_or("?");
}

void UdpTarget::destroy_qp(uint32_t qp) {
  ask({{"cmd", "destroy_qp"}, {"qp", qp}});
}

void UdpTarget::post_recv(uint32_t qp, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) {
  ask({{"cmd", "post_recv"},
       {"qp", qp},
       {"wr_id", wr_id},
       {"mr", mr},
       {"offset", offset},
       {"length", length}});
}

void UdpTarget::post_srq_recv(uint32_t srq, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) {
  ask({{"cmd", "post_recv"},
       {"srq", srq},
       {"wr_id", wr_id},
       {"mr", mr},
       {"offset", offset},
       {"length", length}});
}

void UdpTarget::post_send(uint32_t qp, const Work& work) {
  ask({{"cmd", "post_send"},
       {"qp", qp},
       {"wr_id", work.wr_id},
       {"op", name_of(work.op)},
       {"mr", work.mr},
       {"offset", work.offset},
       {"length", work.length},
       {"remote_addr", wide(work.remote_addr)},
       {"rkey", work.rkey},
       {"imm", work.imm},
       {"add", wide(work.add)},
       {"compare", wide(work.compare)},
       {"swap", wide(work.swap)},
       {"fence", work.fence},
       {"solicited", work.solicited},
       {"unsignaled", work.unsignaled}});
}

std::vector<Completion> UdpTarget::poll(uint32_t qp) {
  const json answer = ask({{"cmd", "poll"}, {"qp", qp}, {"max", 64}});
  const auto list = answer.find("completions");
  if (list == answer.end() || !list->is_array()) throw TargetFailed("poll: the answer has no completions");
  std::vector<Completion> out;
  for (const json& each : *list) {
    Completion one;
    one.wr_id = number_of(each, "wr_id", UINT64_MAX).value_or(UINT64_MAX);
    one.receive = text_of(each, "queue") == "recv";
    one.status = text_of(each, "status").value_or("?");
    one.opcode = text_of(each, "opcode").value_or("?");
    one.bytes = static_cast<uint32_t>(number_of(each, "bytes", UINT32_MAX).value_or(0));
    if (const auto imm = number_of(each, "imm", UINT32_MAX)) one.imm = static_cast<uint32_t>(*imm);
    out.push_back(std::move(one));
  }
  return out;
}

void UdpTarget::link(uint32_t plane, bool up) {
  ask({{"cmd", "link"}, {"plane", plane}, {"up", up}});
}

// ---- packets

// Nothing but an error if the address cannot be used; a socket without a descriptor if the port is taken.
tl::expected<UdpTarget::Socket, std::string> UdpTarget::bind_udp(const Gid& address, uint16_t port) const {
  net::FileDescriptor fd(::socket(net::family_of(address), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const net::SocketAddress local = net::socket_address({address, port}, 0);
  if (!fd) return tl::unexpected(cannot_bind(address, errno));
  if (::bind(fd.get(), local.get(), local.length) != 0) {
    if (errno == EADDRINUSE || (errno == EACCES && port != 0)) return Socket{};
    return tl::unexpected(cannot_bind(address, errno));
  }
  net::set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, 8 << 20);
  if (address.is_v4_mapped()) {
    net::set_option(fd.get(), IPPROTO_IP, IP_RECVTOS, 1);
  } else {
    net::set_option(fd.get(), IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  }
  const UdpAddress bound = local_address(fd.get());
  return Socket{std::move(fd), bound};
}

UdpTarget::Socket UdpTarget::bind_any_port(const Gid& address) const {
  auto socket = bind_udp(address, 0);
  if (!socket) throw NotRun(socket.error());
  if (!socket->fd) throw NotRun(cannot_bind(address, EADDRINUSE));
  socket->source = true;
  return std::move(*socket);
}

// At an address of its own it has the listening port, too: answers to INITs that came from there arrive.
UdpTarget::Socket UdpTarget::bind_stranger() const {
  Socket out;
  if (stranger_ != address_) {
    auto socket = bind_udp(stranger_, static_cast<uint16_t>(base_ + slot_));
    if (socket && socket->fd) out = std::move(*socket);
  }
  if (!out.fd) out = bind_any_port(stranger_);
  out.source = out.stranger = true;
  return out;
}

// Once for all endpoints at one base port; the slot is the first that is free on the tester's address.
void UdpTarget::open_sockets(const Started& started) {
  target_ = {started.address, started.port};
  const auto base = static_cast<uint16_t>(started.port - started.slot);
  if (!sockets_.empty() && base == base_) {
    for (const Socket& each : sockets_) {  // what the endpoint before has sent
      std::array<std::byte, 16> nothing;
      while (::recv(each.fd.get(), nothing.data(), nothing.size(), MSG_DONTWAIT) >= 0) {
      }
    }
    return;
  }
  base_ = base;
  sockets_.clear();
  std::vector<Socket> opened;  // taken over as a whole
  for (uint32_t slot = address_ == started.address ? started.slot + 1U : 1U;
       slot < 256 && base_ + slot < 65536 && opened.empty(); ++slot) {
    auto socket = bind_udp(address_, static_cast<uint16_t>(base_ + slot));
    if (!socket) throw NotRun(socket.error());
    if (!socket->fd) continue;
    slot_ = static_cast<uint8_t>(slot);
    opened.push_back(std::move(*socket));
  }
  if (opened.empty())
    throw NotRun(fmt::format("no UDP port from {} on is free on {}", base_ + 1, net::to_string(address_)));
  for (uint8_t i = 0; i < kSources; ++i) opened.push_back(bind_any_port(address_));
  opened.push_back(bind_stranger());
  sockets_ = std::move(opened);
}

Gid UdpTarget::tester_address(uint32_t plane) const {
  if (plane != 0) throw Unsupported("the tester has one address");
  return address_;
}

const UdpTarget::Socket& UdpTarget::socket_for(const Origin& origin) const {
  if (sockets_.empty()) throw TargetFailed("there is no endpoint: start comes first");
  return origin.stranger ? sockets_.back() : sockets_[1U + origin.source % kSources];
}

void UdpTarget::send(std::span<const std::byte> datagram, const Origin& origin) {
  const Socket& socket = socket_for(origin);
  const net::SocketAddress to = net::socket_address(target_, 0);
  const int tos = static_cast<int>(origin.ecn);
  if (target_.ip.is_v4_mapped()) {
    net::set_option(socket.fd.get(), IPPROTO_IP, IP_TOS, tos);
  } else {
    net::set_option(socket.fd.get(), IPPROTO_IPV6, IPV6_TCLASS, tos);
  }
  // A refusal (a closed port was reported for an earlier datagram) is a loss, as in a network.
  for (int tries = 0; tries < 2; ++tries) {
    if (::sendto(socket.fd.get(), datagram.data(), datagram.size(), 0, to.get(), to.length) >= 0) return;
  }
  const int error = errno;
  if (is_loss(error)) return;
  throw NotRun(fmt::format("the tester cannot send from {} to {} port {}: {}",
                           net::to_string(socket.local.ip), net::to_string(target_.ip), target_.port,
                           std::strerror(error)));
}

std::optional<Arrived> UdpTarget::take(const Socket& socket) {
  Arrived out;
  out.bytes.resize(kMaxDatagram);
  sockaddr_storage from{};
  iovec piece{out.bytes.data(), out.bytes.size()};
  alignas(cmsghdr) std::array<char, 128> control{};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket.fd.get(), &message, MSG_DONTWAIT);
  if (got < 0) return std::nullopt;
  out.bytes.resize(static_cast<size_t>(got));
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    const bool v4 = each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_TOS;
    const bool v6 = each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_TCLASS;
    if (v4 || v6) out.ecn = static_cast<Ecn>(*CMSG_DATA(each) & 3);
  }
  out.at = now();
  out.from = net::udp_address(from);
  out.to = socket.local;
  out.to_source_port = socket.source;
  out.to_stranger = socket.stranger;
  return out;
}

std::optional<Arrived> UdpTarget::receive(Time until) {
  std::vector<pollfd> entries;
  for (const Socket& each : sockets_) entries.push_back({each.fd.get(), POLLIN, 0});
  while (true) {
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (auto arrived = take(sockets_[(turn_ + i) % sockets_.size()])) return arrived;
    }
    const Nanos left = until - now();
    if (left <= Nanos{0}) return std::nullopt;
    const timespec wait{static_cast<time_t>(left.count() / 1'000'000'000), left.count() % 1'000'000'000};
    ::ppoll(entries.data(), entries.size(), &wait, nullptr);
  }
}

Time UdpTarget::now() const {
  return time_from_ns(
      std::chrono::duration_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace mroce::comply
