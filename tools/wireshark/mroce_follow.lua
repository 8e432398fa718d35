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
  if header.version ~= 1 then return note end
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
