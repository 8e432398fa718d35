// The other way to poll: start_poll, next_poll, end_poll, and a function for each field.
//
// One completion at a time: none is held back here when its queue pair is destroyed.
#include "verbs/convert.h"
#include "verbs/cq.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

Cq& ours(ibv_cq_ex* cq) {
  return *static_cast<Cq*>(cq);
}

int advance(Cq& cq) {
  Session& session = *context_of(cq).session;
  if (!session.alive()) return ENODEV;
  const Inside guard;
  try {
    if (session.endpoint().poll_cq(cq.engine, std::span(&cq.current, 1)) == 0) return ENOENT;
  } catch (const std::exception&) {
    return ENOMEM;
  }
  cq.wr_id = cq.current.wr_id;
  cq.status = static_cast<ibv_wc_status>(cq.current.status);
  return 0;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  return advance(ours(cq));
}
int next_poll(ibv_cq_ex* cq) {
  return advance(ours(cq));
}
void end_poll(ibv_cq_ex*) {}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) {
  return static_cast<ibv_wc_opcode>(ours(cq).current.opcode);
}
uint32_t read_vendor_err(ibv_cq_ex*) {
  return 0;
}
uint32_t read_byte_len(ibv_cq_ex* cq) {
  return ours(cq).current.byte_len;
}
__be32 read_imm_data(ibv_cq_ex* cq) {
  return immediate_or_key(ours(cq).current);
}
uint32_t read_qp_num(ibv_cq_ex* cq) {
  return ours(cq).current.qp_num;
}
uint32_t read_src_qp(ibv_cq_ex* cq) {
  return ours(cq).current.src_qp;
}
unsigned int read_wc_flags(ibv_cq_ex* cq) {
  return ours(cq).current.flags;
}
uint32_t read_slid(ibv_cq_ex*) {
  return 0;
}
uint8_t read_sl(ibv_cq_ex*) {
  return 0;
}
uint8_t read_dlid_path_bits(ibv_cq_ex*) {
  return 0;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  constexpr uint64_t kFields = IBV_WC_STANDARD_FLAGS;
  const uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
  const bool known = (attr->wc_flags & ~kFields) == 0 &&
                     (attr->comp_mask & ~uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) == 0 &&
                     (flags & ~uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) == 0;
  if (!known) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  Cq* cq = create_cq(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
  if (cq == nullptr) return nullptr;
  cq->start_poll = start_poll;
  cq->next_poll = next_poll;
  cq->end_poll = end_poll;
  cq->read_opcode = read_opcode;
  cq->read_vendor_err = read_vendor_err;
  cq->read_byte_len = read_byte_len;
  cq->read_imm_data = read_imm_data;
  cq->read_qp_num = read_qp_num;
  cq->read_src_qp = read_src_qp;
  cq->read_wc_flags = read_wc_flags;
  cq->read_slid = read_slid;
  cq->read_sl = read_sl;
  cq->read_dlid_path_bits = read_dlid_path_bits;
  return cq;
}

}  // namespace mroce::verbs
