-- ---- DATA

local extensions = {
  WRITE = "ext_write", WRITE_IMM = "ext_write_imm", SEND = "ext_send", SEND_IMM = "ext_send", SEND_INV = "ext_send",
  READ_REQ = "ext_read_req", READ_RESP = "ext_read_resp", COMPARE_SWAP = "ext_atomic", FETCH_ADD = "ext_atomic",
  ATOMIC_RESP = "ext_atomic_resp",
}
local with_payload = { WRITE = true, WRITE_IMM = true, SEND = true, SEND_IMM = true, SEND_INV = true, READ_RESP = true }

local function is_control(op) return op:match("^STREAM_") ~= nil or op == "CREDIT_RETURN" end

local function check_stream_control(branch, tvb, at)
  for offset, name in pairs({ [0] = "src_qpn", [4] = "dst_qpn", [8] = "sq_psn" }) do
    if tvb(at + offset, 4):uint() >= 2 ^ 24 then malformed(branch, name .. " has more than 24 bits") end
  end
  local timer, reason, code = tvb(at + 21, 1):uint(), tvb(at + 22, 1):uint(), tvb(at + 23, 1):uint()
  if timer > 31 then malformed(branch, "RNR timer code " .. timer .. " is above 31") end
  if values.StopReason[reason] == nil then malformed(branch, "unknown reason " .. reason) end
  if values.NakCode[code] == nil then malformed(branch, "unknown code " .. code) end
end

local function add_stream_control(tree, op, tvb, at, limit, info)
  local branch = branch_at(tree, tvb, at, limit - at, limit, "stream control")
  if add_fields(branch, "stream_control", tvb, at, limit) == nil then return end
  check_stream_control(branch, tvb, at)
  info[#info + 1] = "qpn " .. tvb(at, 4):uint() .. " > " .. tvb(at + 4, 4):uint()
  if op == "STREAM_REFUSE" or op == "STREAM_STOP" then
    local why = values.StopReason[tvb(at + 22, 1):uint()] or "?"
    branch:add_proto_expert_info(experts.refused, op .. ": " .. why)
    info[#info + 1] = why
  end
  add_rest(branch, extra.rest, tvb, at + 32, limit)
end

-- `size` is that of the whole payload, of which the capture may lack the end.
local function check_payload(tree, op, tvb, size)
  if is_control(op) then
    if size ~= 32 then bad_end(tree, "stream control with " .. size .. " bytes of payload instead of 32") end
  elseif with_payload[op] then
    local offset, length = tvb(28, 4):uint(), tvb(32, 4):uint()
    if offset + size > length then bad_end(tree, "offset " .. offset .. " and " .. size .. " bytes of payload exceed length " .. length) end
  elseif size > 0 then
    bad_end(tree, op .. " with " .. size .. " bytes of payload")
  end
end

local function add_payload(tree, op, tvb, at, limit, info)
  local size = now.finish - at
  check_payload(tree, op, tvb, size)
  if is_control(op) and now.mode ~= 2 then
    add_stream_control(tree, op, tvb, at, limit, info)
    return
  end
  if not is_control(op) and op ~= "VOID" then
    info[#info + 1] = "msn " .. tvb(24, 4):uint() .. " " .. tvb(28, 4):uint() .. "+" .. size .. " of " .. tvb(32, 4):uint()
  end
  if limit <= at then return end
  tree:add(now.mode == 2 and extra.sealed or extra.payload, tvb(at, limit - at))
  if now.mode == 2 then info[#info + 1] = "sealed" end
end

local function add_status(tree, op, tvb)
  if op ~= "READ_RESP" and op ~= "ATOMIC_RESP" then return end
  local status = tvb(40, 1):uint()
  if values.NakCode[status] == nil then malformed(tree, "unknown status " .. status) end
  if status ~= 0 then tree:add_proto_expert_info(experts.failed, values.NakCode[status] or "status " .. status) end
end

local function add_data(tree, header, tvb, limit, _, info)
  local branch, items = branch_at(tree, tvb, 16, 20, limit, "DATA"), {}
  if add_fields(branch, "data", tvb, 0, limit, items) == nil then return end
  add_backlog(branch, tvb, items.backlog)
  local code = tvb(22, 1):uint()
  local op = values.DataOp[code]
  if op == nil then
    malformed(branch, "unknown opcode " .. code)
    info[#info + 1] = "opcode " .. code
    add_rest(tree, extra.rest, tvb, 36, limit)
    return
  end
  info[#info + 1] = op .. " path " .. header.path .. " pseq " .. header.pseq .. " cpsn " .. tvb(16, 4):uint() .. " stream " .. tvb(20, 2):uint()
  if op == "VOID" then tree:add_proto_expert_info(experts.void) end
  local at = 36
  if extensions[op] ~= nil then
    at = add_fields(tree:add(tvb(36, 0), op), extensions[op], tvb, 0, limit)
    if at == nil then return end
    add_status(tree, op, tvb)
  end
  if header.names.EXT then at = add_tlvs(tree, tvb, at, limit, {}, info, true) end
  add_payload(tree, op, tvb, at, limit, info)
end

-- ---- the other types

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
  local path, items = tvb(at, 1):uint(), {}
  local branch = branch_at(tree, tvb, at, 56, limit, "path block, path " .. path)
  if path > 63 then malformed(branch, "path " .. path .. " is above 63") end
  if add_fields(branch, "path_block", tvb, at, limit, items) == nil then return nil end
  local received = count_bits(tvb(at + 8, 32):bytes())
  branch:add(extra.received, tvb(at + 8, 32), received):set_generated()
  add_rate(branch, tvb(at + 2, 2), items.rate)
  add_delay(branch, tvb(at + 52, 2), items.ack_delay)
  info[#info + 1] = "path " .. path .. " largest " .. tvb(at + 4, 4):uint()
  local marked = note.marked[path]
  if marked ~= nil then
    branch:add(extra.newly_marked, tvb(at + 44, 4), marked):set_generated()
    branch:add_proto_expert_info(experts.marked)
  end
  return at + 56
end

local function check_penalty(branch, penalty)
  if penalty > 127 then malformed(branch, "host penalty " .. penalty .. " is above 127") end
  if penalty > 0 then branch:add_proto_expert_info(experts.penalty, "host penalty " .. penalty .. " of 127") end
end

local function add_ack(tree, _, tvb, limit, note, info)
  local branch = branch_at(tree, tvb, 16, 12, limit, "ACK")
  if add_fields(branch, "ack", tvb, 0, limit) == nil then return end
  info[#info + 1] = "cack " .. tvb(16, 4):uint() .. " limit " .. tvb(24, 4):uint()
  check_penalty(branch, tvb(21, 1):uint())
  local at, blocks = 28, tvb(20, 1):uint()
  if blocks > 4 then
    malformed(branch, blocks .. " path blocks, more than 4")
    add_rest(tree, extra.rest, tvb, at, limit)
    return
  end
  for _ = 1, blocks do
    if at >= limit then
      cut_off(branch, "a path block is missing")
      return
    end
    at = add_block(tree, tvb, at, limit, note, info)
    if at == nil then return end
  end
  add_tlvs(tree, tvb, at, limit, most_in_ack, info)
end

-- Returns what follows, or nothing.
local function add_ports(tree, branch, tvb, limit)
  local at, ports = 96, tvb(73, 1):uint()
  if ports < 1 or ports > 8 then
    malformed(branch, ports .. " ports instead of 1 to 8")
    return nil
  end
  for i = 1, ports do
    local port = branch_at(tree, tvb, at, 24, limit, "port " .. i - 1)
    if add_fields(port, "init_port", tvb, at, limit) == nil then return nil end
    local prefix = tvb(at + 16, 4):uint()
    if prefix > 128 then malformed(port, "a prefix of " .. prefix .. " bits") end
    at = at + 24
  end
  return at
end

local function add_init(tree, header, tvb, limit, _, info)
  local branch = branch_at(tree, tvb, 16, 80, limit, header.type)
  if header.type == "INIT" and tvb:reported_len() < 1200 then malformed(branch, "an INIT of less than 1200 bytes") end
  if add_fields(branch, "init", tvb, 0, limit) == nil then return end
  info[#info + 1] = string.format("scid 0x%08x", tvb(24, 4):uint()) .. " payload " .. tvb(70, 2):uint() .. " paths " .. tvb(72, 1):uint() .. " ports " .. tvb(73, 1):uint()
  if tvb(16, 4):uint() ~= 0x6d524f43 then
    info[#info + 1] = "of another magic"
    add_rest(tree, extra.rest, tvb, 96, limit)
    return
  end
  local at = add_ports(tree, branch, tvb, limit)
  if at == nil then return end
  if header.names.EXT then at = add_tlvs(tree, tvb, at, limit, most_in_init, info, true) end
  add_rest(tree, extra.padding, tvb, at, limit)
end

local function token_text(tvb) return "token 0x" .. tvb(16, 8):bytes():tohex():lower() end

local function add_probe(tree, header, tvb, limit, _, info)
  local branch = branch_at(tree, tvb, 16, 12, limit, "PROBE")
  local at = add_fields(branch, "probe", tvb, 0, limit)
  if at == nil then return end
  info[#info + 1] = "path " .. header.path .. (tvb(25, 1):uint() == 1 and " challenge " or " question ") .. token_text(tvb)
  local streams = tvb(24, 1):uint()
  if streams > 64 then malformed(branch, streams .. " streams, more than 64") end
  for _ = 1, streams do
    if at + 2 > limit then
      cut_off(branch, "a stream number is cut off")
      break
    end
    tree:add(extra.stream, tvb(at, 2))
    at = at + 2
  end
  add_rest(tree, extra.padding, tvb, at, limit)
end

local function add_version(tree, header, tvb, limit, _, info)
  local branch = branch_at(tree, tvb, 16, 4, limit, "VERSION")
  local at = add_fields(branch, "version", tvb, 0, limit)
  if at == nil then return end
  local count, numbers = tvb(16, 1):uint(), {}
  if count < 1 or count > 16 then malformed(branch, count .. " versions instead of 1 to 16") end
  for _ = 1, count do
    if at >= limit then
      cut_off(branch, "the list of versions is cut off")
      break
    end
    tree:add(extra.version, tvb(at, 1))
    numbers[#numbers + 1] = tvb(at, 1):uint()
    at = at + 1
  end
  info[#info + 1] = "versions " .. table.concat(numbers, ",")
  add_behind(tree, header, tvb, at, limit, info)
end

local function add_retry(tree, header, tvb, limit, _, info)
  local branch = branch_at(tree, tvb, 16, 12, limit, "RETRY")
  local at = add_fields(branch, "retry", tvb, 0, limit)
  if at == nil then return end
  local length = tvb(24, 1):uint()
  info[#info + 1] = "cookie of " .. length .. " bytes"
  if length < 1 or length > 64 then malformed(branch, "a cookie of " .. length .. " bytes instead of 1 to 64") end
  if at + length > limit then cut_off(branch, "the cookie is cut off") end
  local finish = math.min(at + length, limit)
  add_rest(branch, extra.cookie, tvb, at, finish)
  add_behind(tree, header, tvb, finish, limit, info)
end

local function add_close(tree, header, tvb, limit, _, info)
  local branch = branch_at(tree, tvb, 16, 8, limit, header.type)
  local at = add_fields(branch, "close", tvb, 0, limit)
  if at == nil then return end
  info[#info + 1] = "cack " .. tvb(16, 4):uint() .. " reason " .. tvb(20, 4):uint()
  if header.type == "CLOSE_ACK" then
    add_rest(tree, extra.rest, tvb, at, limit) -- its receiver does not look at it
  else
    add_behind(tree, header, tvb, at, limit, info)
  end
end

local function add_probe_ack(tree, header, tvb, limit, _, info)
  local at = add_fields(branch_at(tree, tvb, 16, 8, limit, "PROBE_ACK"), "probe_ack", tvb, 0, limit)
  if at == nil then return end
  info[#info + 1] = "path " .. header.path .. " " .. token_text(tvb)
  add_behind(tree, header, tvb, at, limit, info)
end

local function add_reset(tree, header, tvb, limit, _, info)
  tree:add_proto_expert_info(experts.reset)
  local at = add_fields(branch_at(tree, tvb, 16, 16, limit, "RESET"), "reset", tvb, 0, limit)
  if at ~= nil then add_behind(tree, header, tvb, at, limit, info) end
end

local function add_unknown(tree, header, tvb, limit)
  malformed(tree, header.known and header.type .. " is a reserved type" or header.type)
  add_rest(tree, extra.rest, tvb, 16, limit)
end

local bodies = {
  INIT = add_init, INIT_ACK = add_init, RETRY = add_retry, VERSION = add_version, DATA = add_data, ACK = add_ack, PROBE = add_probe,
  PROBE_ACK = add_probe_ack, CLOSE = add_close, RESET = add_reset, CLOSE_ACK = add_close,
}

-- ---- a datagram

local in_the_clear = { INIT = true, RETRY = true, VERSION = true, RESET = true }

-- The size of the trailer, and whether it is one of those that have a CRC in every mode.
local function trailer_bytes(header, tvb, note)
  local existing = header.type == "INIT_ACK" and tvb:len() > 24 and tvb(23, 1):uint() % 2 == 1
  if in_the_clear[header.type] or existing then return 4, true end
  if header.type == "INIT_ACK" then return tvb:len() > 24 and tvb(22, 1):uint() == 2 and 16 or 4, true end
  return note.mode == 2 and 16 or 4, false
end

local function add_trailer(tree, tvb, at)
  local size = tvb:reported_len() - at
  if at < 16 or tvb:len() < at + size then return end
  if size == 16 then
    tree:add(extra.tag, tvb(at, 16))
    return
  end
  local item = tree:add(extra.crc, tvb(at, 4))
  if not mroce.prefs.verify then
    tree:add(extra.status, "unverified"):set_generated()
    return
  end
  local good = crc32c(tvb, at) == tvb(at, 4):uint()
  tree:add(extra.status, good and "good" or "bad"):set_generated()
  if not good then item:add_proto_expert_info(experts.crc) end
end

local ecn4, ecn6 = Field.new("ip.dsfield.ecn"), Field.new("ipv6.tclass.ecn")

local function add_sequence(tree, note, info)
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
end

local function add_notes(tree, header, note, info)
  if note.connection ~= nil then tree:add(extra.connection, note.connection):set_generated() end
  if note.to_acceptor ~= nil then tree:add(extra.to_acceptor, note.to_acceptor):set_generated() end
  add_sequence(tree, note, info)
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

-- Bytes that the capture does not have count as zero.
local function header_of(tvb)
  local function at(offset, bytes) return offset + bytes <= tvb:len() and tvb(offset, bytes):uint() or 0 end
  local first, flag_byte, names, shown = at(0, 1), at(1, 1), {}, {}
  for _, flag in ipairs(flags) do
    if math.floor(flag_byte / flag.mask) % 2 == 1 then
      names[flag.name] = true
      shown[#shown + 1] = flag.name
    end
  end
  return {
    version = math.floor(first / 16), type = values.Type[first % 16] or "unknown type " .. first % 16, known = values.Type[first % 16] ~= nil,
    names = names, shown = shown, path = at(2, 1), epoch = at(3, 1), dcid = at(4, 4), pseq = at(8, 4),
  }
end

-- Of another version only the place of version and type is known.
local function show_another_version(header, tvb, pinfo, root)
  local tree = root:add(mroce, tvb(), "mroce version " .. header.version)
  tree:add(fields.common.version, tvb(0, 1))
  tree:add(fields.common.type, tvb(0, 1))
  add_rest(tree, extra.rest, tvb, 1, tvb:len())
  tree:add_proto_expert_info(experts.version, "version " .. header.version .. " is not known here")
  pinfo.cols.info = "version " .. header.version .. ", not dissected"
end

local function show(header, note, tvb, pinfo, root)
  local trailer, clear = trailer_bytes(header, tvb, note)
  local finish = tvb:reported_len() - trailer
  local limit, info = math.min(finish, tvb:len()), {}
  now = { tvb = tvb, finish = finish, limit = limit, cut = tvb:len() < finish, mode = note.mode, in_the_clear = clear }
  local tree = root:add(mroce, tvb(), "mroce " .. header.type)
  add_common(tree, header, tvb)
  if limit >= 16 then
    (bodies[header.type] or add_unknown)(tree, header, tvb, limit, note, info)
    add_trailer(tree, tvb, finish)
  end
  if #header.shown > 0 then info[#info + 1] = "[" .. table.concat(header.shown, ",") .. "]" end
  add_notes(tree, header, note, info)
  if tvb:len() < tvb:reported_len() then
    tree:add_proto_expert_info(experts.cut, "only " .. tvb:len() .. " of " .. tvb:reported_len() .. " bytes were captured")
    info[#info + 1] = "[captured " .. tvb:len() .. " of " .. tvb:reported_len() .. "]"
  end
  pinfo.cols.info = header.type .. " " .. table.concat(info, " ")
end

function mroce.dissector(tvb, pinfo, root)
  if tvb:reported_len() < 20 or tvb:len() < 1 then return 0 end
  pinfo.cols.protocol = "mroce"
  local header = header_of(tvb)
  local note = notes[pinfo.number]
  if note == nil then note = first_look(header, tvb, pinfo.number) end
  if header.version == 1 then
    show(header, note, tvb, pinfo, root)
  else
    show_another_version(header, tvb, pinfo, root)
  end
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
