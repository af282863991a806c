-- Token bucket and leaky bucket in the level form. Numbers: burst, per hit, per
-- µs, capacity, debt cap, skew µs. State: time, level and per hit, as three
-- little-endian doubles: reading numbers from text costs a microsecond.
local function bucket(key, now, mode, cost, jitter, a, i, commit)
  local burst, perhit, permicro = a[i] + 0, a[i + 1] + 0, a[i + 2] + 0
  local capacity, debtcap = a[i + 3] + 0, a[i + 4] + 0
  local at, level, stepped = now, 0, false
  local state = redis.call('GET', key)
  if state then
    local old
    at, level, old = struct.unpack('<ddd', state)
    if old ~= perhit then -- the limit's numbers changed: keep the hits used
      level = ceil(level / old * perhit)
    end
    level = min(level, debtcap)
    if level == 0 then -- as new, whenever that was
      at = now
    elseif at >= now then
      if at - now > tonumber(a[i + 5]) then at, stepped = now, true end
    elseif now - at >= ceil(level / permicro) then
      at, level = now, 0
    else
      at, level = now, level - (now - at) * permicro
    end
  end
  local before, took, allowed, never = level, 0, true, false

  if mode == CHARGE then
    local room = floor((debtcap - level) / perhit)
    if cost <= room then
      took, level = cost, level + cost * perhit
    else
      took, level = room, debtcap
    end
  elseif mode == REFUND then
    took = min(cost, ceil(level / perhit))
    level = max(0, level - took * perhit)
  else
    if cost > burst then
      allowed, never = false, true
    else
      allowed = level <= capacity - cost * perhit
    end
    took = taken(mode, allowed, cost, floor(max(0, capacity - level) / perhit))
    level = level + took * perhit
  end

  local late, retry, reset = at - now, 0, 0
  if not allowed and not never then
    retry = ceil((level - (capacity - cost * perhit)) / permicro) + late
  end
  if level > 0 then reset = ceil(level / permicro) + late end
  if commit and (level ~= before or stepped and mode ~= LOOK) then
    if level == 0 then
      redis.call('DEL', key)
    else
      redis.call('SET', key, struct.pack('<ddd', at, level, perhit), 'PX', life(reset, jitter))
    end
  end
  local remaining, used = floor(max(0, capacity - level) / perhit), ceil(level / perhit)
  if allowed then return ALLOW, took, remaining, used, 0, reset end
  return never and NEVER or DENY, took, remaining, used, retry, reset
end
