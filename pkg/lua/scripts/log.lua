-- Sliding window log, exact. Numbers: limit, limit plus debt, window µs, skew
-- µs. State: a list: the hits in total, then "time:hits" for each request, the
-- oldest first. Only entries that have left the window are ever dropped.
local MOST = 256 -- entries: those of spends alone, twice; only charges go past it
local function log(key, now, mode, cost, jitter, a, i, commit)
  local limit, cap, window = tonumber(a[i]), tonumber(a[i + 1]), tonumber(a[i + 2])
  local function entry(text)
    local at, hits = string.match(text, '^(%d+):(%d+)$')
    return tonumber(at), tonumber(hits)
  end
  local total, dead, stepped, stamp = 0, 0, false, now
  local head = redis.call('LRANGE', key, 0, 1)
  if head[2] then
    total = tonumber(head[1])
    local newest = entry(redis.call('LINDEX', key, -1))
    local horizon = now
    if newest > now then
      if newest - now <= tonumber(a[i + 3]) then
        stamp, horizon = newest, newest
      else
        stepped = true
      end
    end
    local at, hits = entry(head[2])
    if at <= horizon - window then
      local all = redis.call('LRANGE', key, 1, -1)
      for n = 1, #all do
        at, hits = entry(all[n])
        if at > horizon - window then break end
        dead, total = dead + 1, total - hits
      end
    end
  end
  local function rest() return redis.call('LRANGE', key, 1 + dead, -1) end

  local took, allowed, never = 0, true, false
  if mode == CHARGE then
    took = min(cost, max(0, cap - total))
  elseif mode == REFUND then
    took = min(cost, total)
  else
    allowed = total + cost <= limit
    never = not allowed and cost > limit
    took = taken(mode, allowed, cost, limit - total)
  end

  local used, retry, reset = total + took, 0, 0
  if mode == REFUND then
    used = total - took
    local left, live = took, rest()
    for n = #live, 1, -1 do
      local at, hits = entry(live[n])
      if hits > left then
        reset = min(at, stamp) + window - now
        break
      end
      left = left - hits
    end
  elseif took > 0 then
    reset = stamp + window - now
  elseif total > 0 then
    reset = min(entry(redis.call('LINDEX', key, -1)), stamp) + window - now
  end
  if not allowed and not never then
    local need, leaves, live = used + cost - limit, stamp, rest()
    for n = 1, #live do
      local at, hits = entry(live[n])
      need = need - hits
      if need <= 0 then
        leaves = min(at, stamp)
        break
      end
    end
    retry = leaves + window - now
  end

  if commit and mode ~= LOOK and (took > 0 or stepped or dead > 0) then
    if stepped then -- what is ahead of the present is brought back to it
      local live, ahead = rest(), 0
      redis.call('DEL', key)
      redis.call('RPUSH', key, '0')
      for n = 1, #live do
        local at, hits = entry(live[n])
        if at >= now then
          ahead = ahead + hits
        else
          redis.call('RPUSH', key, live[n])
        end
      end
      if ahead > 0 then redis.call('RPUSH', key, string.format('%.0f:%.0f', now, ahead)) end
    elseif dead > 0 then
      redis.call('LPOP', key, int(dead + 1))
      redis.call('LPUSH', key, '0')
    end
    if mode == REFUND then
      local left = took
      while left > 0 do
        local at, hits = entry(redis.call('RPOP', key))
        if hits > left then
          redis.call('RPUSH', key, string.format('%.0f:%.0f', at, hits - left))
        end
        left = left - hits
      end
    elseif took > 0 then
      local hits = took
      if total == 0 and not stepped and dead == 0 then
        redis.call('RPUSH', key, '0')
      else -- equal stamps share an entry, as does all that is past the bound
        local last, had = entry(redis.call('LINDEX', key, -1))
        if last and (last == stamp or redis.call('LLEN', key) > MOST) then
          redis.call('RPOP', key)
          hits = hits + had
        end
      end
      redis.call('RPUSH', key, string.format('%.0f:%.0f', stamp, hits))
    end
    if used == 0 then
      redis.call('DEL', key)
    else
      redis.call('LSET', key, 0, int(used))
      redis.call('PEXPIRE', key, life(reset, jitter))
    end
  end
  local remaining = max(0, limit - used)
  if allowed then return ALLOW, took, remaining, used, 0, reset end
  return never and NEVER or DENY, took, remaining, used, retry, reset
end
