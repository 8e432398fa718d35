// ControlSession: the commands of docs/comply-control.md on an endpoint of net/. One for each `start`, in a
// process of its own (control_server.h).
//
// Requests come from a network: every member is checked for its kind and range, and an answer is always one
// line.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "comply/engine_host.h"
#include "comply/json_line.h"
#include "core/mroce/engine.h"

namespace mroce::comply {

class ControlSession {
 public:
  // `address`: the one local address that the endpoint uses.
  explicit ControlSession(const Gid& address, OpenHost open = open_udp_host)
      : address_(address), open_(std::move(open)) {}
  ~ControlSession();

  // One request, one answer, both without their line feeds.
  std::string answer(std::string_view line);

 private:
  using Json = nlohmann::json;
  struct Mr {
    std::vector<uint64_t> words;  // so that atomics find their addresses aligned
    uint32_t length = 0;
    MrInfo keys;
    uint64_t addr() const { return reinterpret_cast<uint64_t>(words.data()); }
    std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words)).first(length); }
  };
  struct Qp {
    QpHandle handle;
    CqHandle cq;
  };

  Json dispatch(const Json& request);
  Json hello(const Json& request);
  Json start(const Json& request);
  Json stop(const Json& request);
  Json create_mr(const Json& request);
  Json destroy_mr(const Json& request);
  Json read_memory(const Json& request);
  Json write_memory(const Json& request);
  Json create_srq(const Json& request);
  Json create_qp(const Json& request);
  Json connect_qp(const Json& request);
  Json modify_qp(const Json& request);
  Json query_qp(const Json& request);
  Json destroy_qp(const Json& request);
  Json post_recv(const Json& request);
  Json post_send(const Json& request);
  Json poll(const Json& request);

  EngineHost& endpoint();
  Mr& region(const Json& request);
  Qp& queue_pair(const Json& request);
  Sge sge(const Json& request);

  Gid address_;
  OpenHost open_;
  std::map<uint32_t, Mr> mrs_;  // outlives the endpoint
  std::unique_ptr<EngineHost> endpoint_;
  PdHandle pd_;
  std::map<uint32_t, Qp> qps_;
  std::map<uint32_t, SrqHandle> srqs_;
  uint64_t mr_bytes_ = 0;
  uint32_t next_id_ = 1;
};

}  // namespace mroce::comply
