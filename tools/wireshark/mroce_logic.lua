-- The dissector's logic. The tables `packets`, `values` and `flags` above it are printed from core/wire/fields.def.
--
-- A datagram is dissected by its tables: each field of the wire becomes mroce.PACKET.FIELD (mroce.FIELD for the common
-- header). On the first pass through a capture, connections are followed: handshakes name them, each path of each
-- direction remembers its highest PSEQ, epoch and reported CE count, so that expert information can say what is a gap,
-- what came late, what is a retransmission of which frame. What was found is kept by frame number, because Wireshark
-- dissects frames again in any order. No bit operations are used: the Lua versions of Wireshark 4.0 and newer
-- differ in them.

local mroce = Proto("mroce", "mroce transport")

-- ---- fields

local kinds = { [8] = ProtoField.uint8, [16] = ProtoField.uint16, [24] = ProtoField.uint24, [32] = ProtoField.uint32, [64] = ProtoField.uint64 }
local enumerations = {
  ["common.type"] = "Type", ["data.op"] = "DataOp", ["tlv.type"] = "Tlv", ["nak.code"] = "NakCode",
  ["stream_control.reason"] = "StopReason", ["stream_control.code"] = "NakCode",
  ["probe.kind"] = "ProbeKind", ["ext_read_resp.status"] = "NakCode", ["ext_atomic_resp.status"] = "NakCode",
}
local hexadecimal = { dcid = true, scid = true, known_cid = true, rkey = true, va = true, imm = true, magic = true, token = true, nonce = true, mask = true, flags = true }

local function short_name(packet, field)
  if packet == "common" then return "mroce." .. field end
  return "mroce." .. packet:gsub("^ext_", "") .. "." .. field
end

local function proto_field(packet, row)
  local name, title = short_name(packet, row.field), row.field .. ": " .. row.sentence
  if row.bits < 8 then
    local mask = row.low == 0 and 2 ^ row.bits - 1 or (2 ^ row.bits - 1) * 2 ^ row.low
    return ProtoField.uint8(name, row.field, base.DEC, values[enumerations[packet .. "." .. row.field]], mask, row.sentence)
  end
  local make = kinds[row.bits]
  if make == nil then return ProtoField.bytes(name, row.field, base.NONE, row.sentence) end
  local shape = hexadecimal[row.field] and base.HEX or base.DEC
  return make(name, row.field, shape, values[enumerations[packet .. "." .. row.field]], nil, title)
end

local fields, all = {}, {}
for packet, rows in pairs(packets) do
  fields[packet] = {}
  for _, row in ipairs(rows) do
    local made = proto_field(packet, row)
    fields[packet][row.field] = made
    all[#all + 1] = made
  end
end

local extra = {
  connection = ProtoField.uint32("mroce.connection", "connection", base.DEC, nil, nil, "counted in this capture, from 0"),
  to_acceptor = ProtoField.bool("mroce.to_acceptor", "to the acceptor", base.NONE, nil, nil, "from the initiator of the connection; known if its handshake is in the capture"),
  payload = ProtoField.bytes("mroce.payload", "payload", base.NONE, "of DATA"),
  padding = ProtoField.bytes("mroce.padding", "padding", base.NONE, "behind the body"),
  crc = ProtoField.uint32("mroce.crc", "CRC-32C", base.HEX, nil, nil, "trailer of mode 0"),
  tag = ProtoField.bytes("mroce.tag", "GCM tag", base.NONE, "trailer of mode 2"),
  status = ProtoField.string("mroce.crc.status", "CRC status", base.NONE, "good, bad or unverified"),
  missing = ProtoField.uint32("mroce.missing", "missing", base.DEC, nil, nil, "PSEQs skipped since the highest one of this path"),
  late = ProtoField.uint32("mroce.late", "late by", base.DEC, nil, nil, "PSEQs of this path that overtook this one"),
  first_frame = ProtoField.framenum("mroce.first_frame", "first sent in", base.NONE, frametype.RETRANS_PREV, nil, "the frame in which this CPSN was first seen"),
  received = ProtoField.uint32("mroce.path_block.received", "received of the last 256", base.DEC, nil, nil, "bits of the vector that are set"),
  newly_marked = ProtoField.uint32("mroce.path_block.newly_marked", "marked since the ACK before", base.DEC, nil, nil, "CE count minus that of the ACK before"),
  stream = ProtoField.uint16("mroce.probe.stream", "stream", base.DEC, nil, nil, "whose credit is wanted"),
  version = ProtoField.uint8("mroce.version.version", "version", base.DEC, nil, nil, "that the sender understands"),
  tlv_value = ProtoField.bytes("mroce.tlv.value", "value", base.NONE, "of a TLV without a table"),
}
for _, made in pairs(extra) do all[#all + 1] = made end
local flag_fields = {}
for _, flag in ipairs(flags) do
  flag_fields[flag.name] = ProtoField.bool("mroce.flags." .. flag.name:lower(), flag.name, 8, nil, flag.mask, flag.sentence)
  all[#all + 1] = flag_fields[flag.name]
end
mroce.fields = all

local experts = {
  retransmission = ProtoExpert.new("mroce.expert.retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
  gap = ProtoExpert.new("mroce.expert.gap", "Gap in the path's sequence", expert.group.SEQUENCE, expert.severity.WARN),
  late = ProtoExpert.new("mroce.expert.late", "Overtaken on its path", expert.group.SEQUENCE, expert.severity.NOTE),
  repeated = ProtoExpert.new("mroce.expert.repeated", "PSEQ seen before", expert.group.SEQUENCE, expert.severity.NOTE),
  ce = ProtoExpert.new("mroce.expert.ce", "Congestion Experienced", expert.group.SEQUENCE, expert.severity.NOTE),
  marked = ProtoExpert.new("mroce.expert.marked", "The receiver counted CE marks", expert.group.SEQUENCE, expert.severity.NOTE),
  epoch = ProtoExpert.new("mroce.expert.epoch", "The path takes another way", expert.group.SEQUENCE, expert.severity.NOTE),
  nak = ProtoExpert.new("mroce.expert.nak", "NAK", expert.group.RESPONSE_CODE, expert.severity.WARN),
  failed = ProtoExpert.new("mroce.expert.failed", "The response says failure", expert.group.RESPONSE_CODE, expert.severity.WARN),
  refused = ProtoExpert.new("mroce.expert.refused", "A stream is refused or stopped", expert.group.RESPONSE_CODE, expert.severity.WARN),
  void = ProtoExpert.new("mroce.expert.void", "A packet that will not come", expert.group.RESPONSE_CODE, expert.severity.NOTE),
  penalty = ProtoExpert.new("mroce.expert.penalty", "The receiving host is too slow", expert.group.RESPONSE_CODE, expert.severity.WARN),
  reset = ProtoExpert.new("mroce.expert.reset", "The connection is unknown there", expert.group.RESPONSE_CODE, expert.severity.ERROR),
  malformed = ProtoExpert.new("mroce.expert.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
  crc = ProtoExpert.new("mroce.expert.crc", "Wrong CRC", expert.group.CHECKSUM, expert.severity.ERROR),
}
local list = {}
for _, made in pairs(experts) do list[#list + 1] = made end
mroce.experts = list

mroce.prefs.ports = Pref.range("UDP ports", "61440-61695", "base port and slots of the endpoints", 65535)
mroce.prefs.verify = Pref.bool("Verify the CRC", false, "slow for large captures")

-- ---- CRC-32C by a table, with arithmetic only

local function xor_bytes(a, b)
  local result, weight = 0, 1
  for _ = 1, 8 do
    local x, y = a % 2, b % 2
    if x ~= y then result = result + weight end
    a, b, weight = (a - x) / 2, (b - y) / 2, weight * 2
  end
  return result
end

local crc_table, xor8
local function make_tables()
  xor8 = {}
  for a = 0, 255 do
    xor8[a] = {}
    for b = 0, 255 do xor8[a][b] = xor_bytes(a, b) end
  end
  crc_table = {}
  local poly = { 0x78, 0x3b, 0xf6, 0x82 } -- 0x82f63b78, low byte first
  for n = 0, 255 do
    local c = { n, 0, 0, 0 }
    for _ = 1, 8 do
      local odd = c[1] % 2 == 1
      for i = 1, 4 do c[i] = math.floor(c[i] / 2) + (i < 4 and c[i + 1] % 2 * 128 or 0) end
      if odd then for i = 1, 4 do c[i] = xor8[c[i]][poly[i]] end end
    end
    crc_table[n] = c
  end
end

local function crc32c(tvb, length)
  if crc_table == nil then make_tables() end
  local bytes = tvb:range(0, length):bytes()
  local c1, c2, c3, c4 = 255, 255, 255, 255
  for i = 0, length - 1 do
    local row = crc_table[xor8[c1][bytes:get_index(i)]]
    c1, c2, c3, c4 = xor8[c2][row[1]], xor8[c3][row[2]], xor8[c4][row[3]], row[4]
  end
  return (((255 - c4) * 256 + 255 - c3) * 256 + 255 - c2) * 256 + 255 - c1
end

-- ---- what is remembered of a capture

local ends, connections, notes -- by connection id; how many; by frame number

function mroce.init() ends, connections, notes = {}, 0, {} end

local function end_of(dcid)
  if ends[dcid] == nil then
    ends[dcid] = { connection = connections, paths = {}, cpsns = {}, reported = {} }
    connections = connections + 1
  end
  return ends[dcid]
end

-- Low 32 bits: the step from a to b, between -2^31 and 2^31.
local function serial_step(a, b)
  local step = (b - a) % 4294967296
  return step >= 2147483648 and step - 4294967296 or step
end

local function follow_handshake(header, tvb, note)
  local scid, security, nonce = tvb(24, 4):uint(), tvb(22, 1):uint(), tvb(60, 8):bytes():tohex()
  if header.type == "INIT" then
    end_of(scid).nonce = nonce -- packets to this id go to the initiator
    ends[scid].to_acceptor = false
    note.connection, note.to_acceptor = ends[scid].connection, true
    return
  end
  local initiator = end_of(header.dcid)
  note.connection, note.to_acceptor = initiator.connection, false
  if tvb(23, 1):uint() % 2 == 1 then return end -- names a connection that exists
  local acceptor = ends[scid]
  if acceptor == nil then
    acceptor = { connection = initiator.connection, paths = {}, cpsns = {}, reported = {} }
    ends[scid] = acceptor
  end
  initiator.to_acceptor, acceptor.to_acceptor = false, true
  initiator.mode, acceptor.mode = security, security
  initiator.peer, acceptor.peer = acceptor, initiator
end

local function follow_path(header, state, note)
  local path = state.paths[header.path]
  if path == nil then
    state.paths[header.path] = { largest = header.pseq, epoch = header.epoch }
    return
  end
  if path.epoch ~= header.epoch then
    note.epoch = path.epoch
    path.epoch = header.epoch
  end
  local step = serial_step(path.largest, header.pseq)
  if step > 1 then note.missing = step - 1 end
  if step == 0 then note.repeated = true end
  if step < 0 then note.late = -step end
  if step > 0 then path.largest = header.pseq end
end

local function follow_data(header, state, cpsn, frame, note)
  follow_path(header, state, note)
  if state.cpsns[cpsn] == nil then
    state.cpsns[cpsn] = frame
  else
    note.first_frame = state.cpsns[cpsn]
  end
end

local function follow_block(state, path, ce_count, note)
  local before = state.reported[path]
  state.reported[path] = ce_count
  local step = before ~= nil and serial_step(before, ce_count) or ce_count
  if step > 0 then note.marked[path] = step end
end

-- Looks at a datagram for the first time.
local function first_look(header, tvb, frame)
  local note = { marked = {} }
  notes[frame] = note
  if header.type == "INIT" or header.type == "INIT_ACK" then
    if tvb:len() >= 100 then follow_handshake(header, tvb, note) end
    return note
  end
  if header.dcid == 0 then return note end
  local state = end_of(header.dcid)
  note.connection, note.to_acceptor, note.mode = state.connection, state.to_acceptor, state.mode
  if header.type == "DATA" and tvb:len() >= 36 then
    follow_data(header, state, tvb(16, 4):uint(), frame, note)
  elseif header.type == "ACK" and tvb:len() >= 28 then
    local at = 28
    for _ = 1, math.min(tvb(20, 1):uint(), 4) do
      if at + 56 <= tvb:len() then follow_block(state, tvb(at, 1):uint(), tvb(at + 44, 4):uint(), note) end
      at = at + 56
    end
  end
  return note
end

-- ---- trees

-- Adds the fields of a table; `start` is where offset 0 of the table lies. Returns what follows, or nothing if cut off.
local function add_fields(tree, packet, tvb, start, limit)
  local finish = start
  for _, row in ipairs(packets[packet]) do
    local at, bytes = start + row.offset, math.max(1, row.bits / 8)
    if at + bytes > limit then
      tree:add_proto_expert_info(experts.malformed, "cut off in " .. row.field)
      return nil
    end
    if row.field ~= "zero" then tree:add(fields[packet][row.field], tvb(at, bytes)) end
    finish = math.max(finish, at + bytes)
  end
  return finish
end

local function add_flags(tree, tvb)
  local branch = tree:add(fields.common.flags, tvb(1, 1))
  local names = {}
  for _, flag in ipairs(flags) do
    branch:add(flag_fields[flag.name], tvb(1, 1))
    if math.floor(tvb(1, 1):uint() / flag.mask) % 2 == 1 then names[#names + 1] = flag.name end
  end
  return names
end

local function add_common(tree, tvb)
  local branch = tree:add(tvb(0, 16), "common header")
  for _, row in ipairs(packets.common) do
    if row.field == "flags" then
      add_flags(branch, tvb)
    else
      branch:add(fields.common[row.field], tvb(row.offset, math.max(1, row.bits / 8)))
    end
  end
end

local value_tables = { NAK = "nak", RQ_CREDIT = "rq_credit", PORT_STATUS = "port_status", CREDIT_RECLAIM = "credit_reclaim", KEY_SHARE = "key_share", COOKIE = "cookie" }

local function add_tlv(tree, tvb, at, length, info)
  local name = values.Tlv[tvb(at, 1):uint()] or "unknown"
  local branch = tree:add(tvb(at, 2 + length), "TLV " .. name)
  branch:add(fields.tlv.type, tvb(at, 1))
  branch:add(fields.tlv.length, tvb(at + 1, 1))
  local packet = value_tables[name]
  if packet ~= nil and packets[packet] ~= nil then
    add_fields(branch, packet, tvb, at + 2, at + 2 + length)
  elseif length > 0 then
    branch:add(extra.tlv_value, tvb(at + 2, length))
  end
  if name == "NAK" and length == 12 then
    local why = values.NakCode[tvb(at + 6, 1):uint()] or "?"
    branch:add_proto_expert_info(experts.nak, "NAK " .. why .. " of CPSN " .. tvb(at + 2, 4):uint())
    info[#info + 1] = "NAK " .. why .. " cpsn " .. tvb(at + 2, 4):uint()
  end
end

-- A list of TLVs from `at`; ends at END or at `limit`. Returns what follows.
local function add_tlvs(tree, tvb, at, limit, info)
  while at + 2 <= limit do
    local length = tvb(at + 1, 1):uint()
    if at + 2 + length > limit then
      tree:add_proto_expert_info(experts.malformed, "a TLV is cut off")
      return limit
    end
    add_tlv(tree, tvb, at, length, info)
    local ended = tvb(at, 1):uint() == 0
    at = at + 2 + length
    if ended then break end
  end
  return at
end

local extensions = {
  WRITE = "ext_write", WRITE_IMM = "ext_write_imm", SEND = "ext_send", SEND_IMM = "ext_send", SEND_INV = "ext_send",
  READ_REQ = "ext_read_req", READ_RESP = "ext_read_resp", COMPARE_SWAP = "ext_atomic", FETCH_ADD = "ext_atomic",
  ATOMIC_RESP = "ext_atomic_resp",
}

local function add_stream_control(tree, op, tvb, at, limit, info)
  local branch = tree:add(tvb(at, limit - at), "stream control")
  if add_fields(branch, "stream_control", tvb, at, limit) == nil then return end
  info[#info + 1] = "qpn " .. tvb(at, 4):uint() .. " > " .. tvb(at + 4, 4):uint()
  if op == "STREAM_REFUSE" or op == "STREAM_STOP" then
    local why = values.StopReason[tvb(at + 22, 1):uint()] or "?"
    branch:add_proto_expert_info(experts.refused, op .. ": " .. why)
    info[#info + 1] = why
  end
end

local function add_data(tree, header, tvb, limit, info, encrypted)
  local branch = tree:add(tvb(16, math.min(20, limit - 16)), "DATA")
  if add_fields(branch, "data", tvb, 0, limit) == nil then return end
  local op = values.DataOp[tvb(22, 1):uint()]
  if op == nil then
    branch:add_proto_expert_info(experts.malformed, "unknown opcode")
    return
  end
  info[#info + 1] = op .. " path " .. header.path .. " pseq " .. header.pseq .. " cpsn " .. tvb(16, 4):uint() .. " stream " .. tvb(20, 2):uint()
  local at = 36
  if extensions[op] ~= nil then
    at = add_fields(tree:add(tvb(36, 0), op), extensions[op], tvb, 0, limit)
    if at == nil then return end
  end
  if header.names.EXT then at = add_tlvs(tree, tvb, at, limit, info) end
  if op == "READ_RESP" or op == "ATOMIC_RESP" then
    local status = tvb(40, 1):uint()
    if status ~= 0 then tree:add_proto_expert_info(experts.failed, values.NakCode[status] or "?") end
  end
  if op == "VOID" then tree:add_proto_expert_info(experts.void) end
  if op:match("^STREAM_") or op == "CREDIT_RETURN" then
    if not encrypted then add_stream_control(tree, op, tvb, at, limit, info) end
  elseif op ~= "VOID" then
    info[#info + 1] = "msn " .. tvb(24, 4):uint() .. " " .. tvb(28, 4):uint() .. "+" .. limit - at .. " of " .. tvb(32, 4):uint()
  end
  if limit > at and (encrypted or not (op:match("^STREAM_") or op == "CREDIT_RETURN")) then
    tree:add(extra.payload, tvb(at, limit - at)):append_text(encrypted and " (encrypted)" or "")
  end
end

local function count_bits(bytes)
  local count = 0
  for i = 0, bytes:len() - 1 do
    local byte = bytes:get_index(i)
    while byte > 0 do
      count = count + byte % 2
      byte = math.floor(byte / 2)
    end
  end
  return count
end

local function add_block(tree, tvb, at, limit, note, info)
  local path = tvb(at, 1):uint()
  local branch = tree:add(tvb(at, math.min(56, limit - at)), "path block, path " .. path)
  if add_fields(branch, "path_block", tvb, at, limit) == nil then return nil end
  local received = count_bits(tvb(at + 8, 32):bytes())
  branch:add(extra.received, tvb(at + 8, 32), received):set_generated()
  info[#info + 1] = "path " .. path .. " largest " .. tvb(at + 4, 4):uint()
  local marked = note.marked[path]
  if marked ~= nil then
    branch:add(extra.newly_marked, tvb(at + 44, 4), marked):set_generated()
    branch:add_proto_expert_info(experts.marked)
  end
  return at + 56
end

local function add_ack(tree, header, tvb, limit, note, info)
  local branch = tree:add(tvb(16, math.min(12, limit - 16)), "ACK")
  if add_fields(branch, "ack", tvb, 0, limit) == nil then return end
  info[#info + 1] = "cack " .. tvb(16, 4):uint() .. " limit " .. tvb(24, 4):uint()
  local penalty = tvb(21, 1):uint()
  if penalty > 0 then branch:add_proto_expert_info(experts.penalty, "host penalty " .. penalty .. " of 127") end
  local at = 28
  if tvb(20, 1):uint() > 4 then
    branch:add_proto_expert_info(experts.malformed, "more than four path blocks")
    return
  end
  for _ = 1, tvb(20, 1):uint() do
    if at >= limit then
      branch:add_proto_expert_info(experts.malformed, "a path block is missing")
      return
    end
    at = add_block(tree, tvb, at, limit, note, info)
    if at == nil then return end
  end
  add_tlvs(tree, tvb, at, limit, info)
end

local function add_init(tree, header, tvb, limit, info)
  local branch = tree:add(tvb(16, math.min(80, limit - 16)), header.type)
  if add_fields(branch, "init", tvb, 0, limit) == nil then return end
  local at = 96
  for i = 1, math.min(tvb(73, 1):uint(), 8) do
    if at + 24 > limit then
      branch:add_proto_expert_info(experts.malformed, "a port is cut off")
      return
    end
    add_fields(tree:add(tvb(at, 24), "port " .. i - 1), "init_port", tvb, at, limit)
    at = at + 24
  end
  if header.names.EXT then at = add_tlvs(tree, tvb, at, limit, info) end
  if limit > at then tree:add(extra.padding, tvb(at, limit - at)) end
  info[#info + 1] = string.format("scid 0x%08x", tvb(24, 4):uint()) .. " payload " .. tvb(70, 2):uint() .. " paths " .. tvb(72, 1):uint() .. " ports " .. tvb(73, 1):uint()
end

local function add_probe(tree, header, tvb, limit, info)
  local at = add_fields(tree:add(tvb(16, math.min(12, limit - 16)), "PROBE"), "probe", tvb, 0, limit)
  if at == nil then return end
  for _ = 1, tvb(24, 1):uint() do
    if at + 2 > limit then
      tree:add_proto_expert_info(experts.malformed, "a stream number is cut off")
      return
    end
    tree:add(extra.stream, tvb(at, 2))
    at = at + 2
  end
  if limit > at then tree:add(extra.padding, tvb(at, limit - at)) end
  info[#info + 1] = "path " .. header.path .. (tvb(25, 1):uint() == 1 and " challenge" or " question")
end

local function add_version(tree, header, tvb, limit, info)
  local at = add_fields(tree:add(tvb(16, math.min(4, limit - 16)), "VERSION"), "version", tvb, 0, limit)
  if at == nil then return end
  for _ = 1, tvb(16, 1):uint() do
    if at >= limit then break end
    tree:add(extra.version, tvb(at, 1))
    at = at + 1
  end
  if header.names.EXT then add_tlvs(tree, tvb, at, limit, info) end
end

local function add_plain(tree, header, tvb, limit, info)
  local packet = header.type == "CLOSE_ACK" and "close" or header.type:lower()
  if packets[packet] == nil then return end
  local at = add_fields(tree:add(tvb(16, limit - 16), header.type), packet, tvb, 0, limit)
  if at ~= nil and limit > at then add_tlvs(tree, tvb, at, limit, info) end
  if header.type == "RESET" then tree:add_proto_expert_info(experts.reset) end
end

local bodies = { DATA = add_data, ACK = add_ack, INIT = add_init, INIT_ACK = add_init, PROBE = add_probe, VERSION = add_version }

-- ---- a datagram

local in_the_clear = { INIT = true, RETRY = true, VERSION = true, RESET = true }

local function trailer_bytes(header, tvb, note)
  local existing = header.type == "INIT_ACK" and tvb:len() > 24 and tvb(23, 1):uint() % 2 == 1
  if in_the_clear[header.type] or existing then return 4 end
  if header.type == "INIT_ACK" then return tvb:len() > 24 and tvb(22, 1):uint() == 2 and 16 or 4 end
  return note.mode == 2 and 16 or 4
end

local function add_trailer(tree, tvb, limit)
  if tvb:len() - limit == 16 then
    tree:add(extra.tag, tvb(limit, 16))
    return
  end
  local item = tree:add(extra.crc, tvb(limit, 4))
  if not mroce.prefs.verify then
    tree:add(extra.status, "unverified"):set_generated()
    return
  end
  local good = crc32c(tvb, limit) == tvb(limit, 4):uint()
  tree:add(extra.status, good and "good" or "bad"):set_generated()
  if not good then item:add_proto_expert_info(experts.crc) end
end

local ecn4, ecn6 = Field.new("ip.dsfield.ecn"), Field.new("ipv6.tclass.ecn")

local function add_notes(tree, header, note, info)
  if note.connection ~= nil then tree:add(extra.connection, note.connection):set_generated() end
  if note.to_acceptor ~= nil then tree:add(extra.to_acceptor, note.to_acceptor):set_generated() end
  if note.missing ~= nil then
    tree:add(extra.missing, note.missing):set_generated()
    tree:add_proto_expert_info(experts.gap)
    info[#info + 1] = "[gap " .. note.missing .. "]"
  end
  if note.late ~= nil then
    tree:add(extra.late, note.late):set_generated()
    tree:add_proto_expert_info(experts.late)
  end
  if note.repeated then tree:add_proto_expert_info(experts.repeated) end
  if note.epoch ~= nil then tree:add_proto_expert_info(experts.epoch, "path " .. header.path .. ": epoch " .. note.epoch .. " to " .. header.epoch) end
  if note.first_frame ~= nil then
    tree:add(extra.first_frame, note.first_frame):set_generated()
    tree:add_proto_expert_info(experts.retransmission)
  elseif header.type == "DATA" and header.names.RTX then
    tree:add_proto_expert_info(experts.retransmission, "of a packet before this capture")
  end
  local ecn = ecn4() or ecn6()
  if ecn ~= nil and ecn.value == 3 then
    tree:add_proto_expert_info(experts.ce)
    info[#info + 1] = "[CE]"
  end
end

local function header_of(tvb)
  local first, flag_byte, names, shown = tvb(0, 1):uint(), tvb(1, 1):uint(), {}, {}
  for _, flag in ipairs(flags) do
    if math.floor(flag_byte / flag.mask) % 2 == 1 then
      names[flag.name] = true
      shown[#shown + 1] = flag.name
    end
  end
  return {
    version = math.floor(first / 16), type = values.Type[first % 16] or "unknown type", names = names, shown = shown,
    path = tvb(2, 1):uint(), epoch = tvb(3, 1):uint(), dcid = tvb(4, 4):uint(), pseq = tvb(8, 4):uint(),
  }
end

function mroce.dissector(tvb, pinfo, root)
  if tvb:len() < 20 or tvb:reported_len() ~= tvb:len() then return 0 end
  pinfo.cols.protocol = "mroce"
  local header = header_of(tvb)
  local note = notes[pinfo.number]
  if note == nil then note = first_look(header, tvb, pinfo.number) end
  local limit = tvb:len() - trailer_bytes(header, tvb, note)
  local tree = root:add(mroce, tvb(), "mroce " .. header.type)
  local info = {}
  add_common(tree, tvb)
  if header.version == 1 and limit >= 16 then
    local add = bodies[header.type] or add_plain
    if header.type == "DATA" then
      add_data(tree, header, tvb, limit, info, note.mode == 2)
    elseif header.type == "ACK" then
      add_ack(tree, header, tvb, limit, note, info)
    else
      add(tree, header, tvb, limit, info)
    end
    add_trailer(tree, tvb, limit)
  end
  if #header.shown > 0 then info[#info + 1] = "[" .. table.concat(header.shown, ",") .. "]" end
  add_notes(tree, header, note, info)
  pinfo.cols.info = header.type .. " " .. table.concat(info, " ")
  return tvb:len()
end

local table_of_ports = DissectorTable.get("udp.port")
local registered
function mroce.prefs_changed()
  if registered == mroce.prefs.ports then return end
  if registered ~= nil then table_of_ports:remove(registered, mroce) end
  registered = mroce.prefs.ports
  table_of_ports:add(registered, mroce)
end
registered = mroce.prefs.ports
table_of_ports:add(registered, mroce)
