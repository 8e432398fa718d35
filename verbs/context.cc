// Opening the device, and what can be asked about it and its port.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "verbs/context.h"
#include "verbs/convert.h"
#include "verbs/device.h"
#include "verbs/export.h"
#include "verbs/objects.h"

#ifndef MROCE_VERSION
#error "the build defines MROCE_VERSION"
#endif

// The ibv_port_attr that the exported ibv_query_port() fills: without the two fields that came later.
// Programs built against an old header, and NCCL, have room for no more.
struct _compat_ibv_port_attr {
  char bytes[offsetof(ibv_port_attr, port_cap_flags2)];
};

namespace mroce::verbs {

VERBS_EXPORT(ibv_query_device);
VERBS_EXPORT(ibv_query_port);

namespace {

static_assert(sizeof(verbs_context) == 648 && offsetof(verbs_context, context) == 320, "see verbs_get_ctx()");
static_assert(sizeof(ibv_device) == 664 && offsetof(Device, ops) == 664,
              "see verbs_get_device() in rdma-core");
static_assert(sizeof(ibv_port_attr) == 52 && sizeof(_compat_ibv_port_attr) == 48);

int clamp_int(uint64_t value) {
  return static_cast<int>(std::min<uint64_t>(value, INT32_MAX));
}

void fill_device_attr(const Context& context, ibv_device_attr& out) {
  const EngineConfig& config = context.session->config();
  out = ibv_device_attr{};
  std::snprintf(out.fw_ver, sizeof out.fw_ver, "%s", MROCE_VERSION);
  out.node_guid = the_device().guid;
  out.sys_image_guid = the_device().guid;
  out.max_mr_size = uint64_t{1} << 63;
  out.page_size_cap = 0xfffff000;  // any page size from 4 KiB
  out.vendor_id = 0xffffff;        // not one that the IEEE has given out: programs look up quirks by it
  out.max_qp = clamp_int(config.max_qp);
  out.max_qp_wr = clamp_int(config.max_qp_wr);
  out.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                         IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE;
  out.max_sge = clamp_int(config.max_sge);
  out.max_sge_rd = clamp_int(config.max_sge);
  out.max_cq = clamp_int(config.max_cq);
  out.max_cqe = clamp_int(config.max_cqe);
  out.max_mr = clamp_int(config.max_mr);
  out.max_pd = clamp_int(config.max_pd);
  out.max_qp_rd_atom = config.max_rd_atomic;
  out.max_res_rd_atom = clamp_int(uint64_t{config.max_qp} * config.max_rd_atomic);
  out.max_qp_init_rd_atom = config.max_rd_atomic;
  out.atomic_cap = IBV_ATOMIC_HCA;
  out.max_ah = 65536;  // each is only memory
  out.max_srq = clamp_int(config.max_srq);
  out.max_srq_wr = clamp_int(config.max_srq_wr);
  out.max_srq_sge = clamp_int(config.max_sge);
  out.max_pkeys = 1;
  out.local_ca_ack_delay = 15;  // 134 ms: the process may be off the processor
  out.phys_port_cnt = 1;
}

int query_device_ex(ibv_context* ibv, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    size_t size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (size < sizeof out->orig_attr) return EINVAL;
  const Context& context = context_of(ibv);
  if (!context.session->alive()) return ENODEV;
  ibv_device_attr_ex attr{};
  fill_device_attr(context, attr.orig_attr);
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
  attr.phys_port_cnt_ex = 1;
  std::memset(out, 0, size);
  std::memcpy(out, &attr, std::min(size, sizeof attr));
  return 0;
}

int query_port(ibv_context* ibv, uint8_t port, ibv_port_attr* out, size_t size) {
  if (port != 1) return EINVAL;
  const Context& context = context_of(ibv);
  if (!context.session->alive()) return ENODEV;
  const bool up = context.session->any_port_up();
  uint64_t rate_bps = 0;
  for (const LocalPort& local : context.session->config().ports)
    rate_bps = std::max(rate_bps, local.rate_bps);
  const LinkSpeed link = to_link_speed(rate_bps);

  ibv_port_attr attr{};
  attr.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = IBV_MTU_4096;
  attr.gid_tbl_len = static_cast<int>(context.session->gids().size());
  attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr.max_msg_sz = uint32_t{1} << 31;
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = 1;
  attr.active_width = link.width;
  attr.active_speed = link.speed;
  attr.phys_state = up ? 5 : 3;  // LinkUp, Disabled
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
  std::memset(out, 0, size);
  std::memcpy(out, &attr, std::min(size, sizeof attr));
  return 0;
}

// Objects that the program leaves behind must not stay reachable for peers: their memory may be somebody
// else's soon. The structures are not freed, since the program may still hold them.
void destroy_leftovers(Context& context) {
  const auto all = [&](auto& set, auto&& destroy) {
    for (auto* object : set) {
      // A failure leaves the object to the end of the process.
      [[maybe_unused]] const Status done =
          command(context, [&](Engine& engine, Time now) -> Status { return destroy(engine, now, *object); });
    }
  };
  all(context.qps, [](Engine& engine, Time now, Qp& qp) { return engine.destroy_qp(now, qp.engine); });
  all(context.srqs, [](Engine& engine, Time, Srq& srq) { return engine.destroy_srq(srq.engine); });
  all(context.cqs, [](Engine& engine, Time, Cq& cq) { return engine.destroy_cq(cq.engine); });
  all(context.mrs, [](Engine& engine, Time, Mr& mr) { return engine.dereg_mr(mr.lkey); });
  all(context.pds, [](Engine& engine, Time, Pd& pd) { return engine.dealloc_pd(pd.engine); });
}

// 0 and a new context, or an errno.
int make_context(Session& session, Context*& out) {
  auto* context = allocate<Context>(session);
  if (context == nullptr) return ENOMEM;
  if (const int error = context->async.open(); error != 0) {
    delete context;
    return error;
  }
  context->sz = sizeof(verbs_context);
  context->query_port = query_port;
  context->query_device_ex = query_device_ex;
  fill_object_operations(*context);
  ibv_context& ibv = context->context;
  ibv.device = &the_device().ibv;
  ibv.ops._compat_query_device = impl_ibv_query_device;
  ibv.ops._compat_query_port = impl_ibv_query_port;
  fill_fast_path(ibv.ops);
  ibv.cmd_fd = -1;
  ibv.async_fd = context->async.fd();
  ibv.num_comp_vectors = 1;
  pthread_mutex_init(&ibv.mutex, nullptr);
  ibv.abi_compat = __VERBS_ABI_IS_EXTENDED;
  out = context;
  return 0;
}

// 0 and a new context, or an errno.
int open_context(ibv_device* device, Context*& out) try {
  const Inside guard;
  if (device != &the_device().ibv) return ENODEV;
  std::string error;
  Session* session = current_session(error);
  if (session == nullptr) {
    std::fprintf(stderr, "mroce: cannot open %s: %s\n", device->name, error.c_str());
    return ENODEV;
  }
  if (const int failed = make_context(*session, out); failed != 0) return failed;
  session->attach(*out);
  return 0;
} catch (const std::bad_alloc&) {
  return ENOMEM;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "mroce: cannot open the device: %s\n", failure.what());
  return ENODEV;
}

}  // namespace

VERBS_EXPORT(ibv_open_device);
ibv_context* impl_ibv_open_device(ibv_device* device) {
  Context* context = nullptr;
  if (const int error = open_context(device, context); error != 0) {
    errno = error;
    return nullptr;
  }
  return &context->context;
}

VERBS_EXPORT(verbs_open_device);
ibv_context* impl_verbs_open_device(ibv_device* device, void*) {
  return impl_ibv_open_device(device);
}

VERBS_EXPORT(ibv_close_device);
int impl_ibv_close_device(ibv_context* ibv) {
  Context& context = context_of(ibv);
  if (context.session->alive()) {
    context.session->detach(context);
    destroy_leftovers(context);
  }
  pthread_mutex_destroy(&ibv->mutex);
  delete &context;
  return 0;
}

int impl_ibv_query_device(ibv_context* ibv, ibv_device_attr* out) {
  const Context& context = context_of(ibv);
  if (!context.session->alive()) return ENODEV;
  fill_device_attr(context, *out);
  return 0;
}

int impl_ibv_query_port(ibv_context* ibv, uint8_t port, _compat_ibv_port_attr* out) {
  return query_port(ibv, port, reinterpret_cast<ibv_port_attr*>(out), sizeof *out);
}

}  // namespace mroce::verbs
