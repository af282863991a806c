-- Fixed window. key names the window; numbers: limit, window µs, window number,
-- count_denied. State: a counter. The caller guesses the number from its
-- estimate of this clock; where it is wrong nothing is written and the answer
-- is MOVED.
local function fixed_window(key, now, mode, cost, jitter, a, i, commit)
  local limit, window, number = a[i] + 0, a[i + 1] + 0, a[i + 2] + 0
  if floor(now / window) ~= number then return MOVED, 0, 0, 0, 0, 0 end
  local reset = (number + 1) * window - now

  if mode == SPEND and commit and a[i + 3] == '1' then -- the busiest case: one command
    local count = redis.call('INCRBY', key, int(cost))
    if count == cost then redis.call('PEXPIRE', key, life(reset, jitter)) end
    if count > 4503599627370496 then -- 2^52: far above every limit, safe to add to
      redis.call('SET', key, '4503599627370496', 'KEEPTTL')
      count = 4503599627370496
    end
    if count <= limit then return ALLOW, cost, limit - count, count, 0, reset end
    if cost > limit then return NEVER, 0, 0, count, 0, reset end
    return DENY, 0, 0, count, reset, reset
  end

  local before = tonumber(redis.call('GET', key) or 0)
  local count, took, allowed = before, 0, true
  if mode == CHARGE then
    took = min(cost, 4503599627370496 - before)
    count = before + took
  elseif mode == REFUND then
    took = min(cost, before)
    count = before - took
  else
    allowed = before + cost <= limit
    took = taken(mode, allowed, cost, limit - before)
    count = before + took
    if not allowed and mode == SPEND and a[i + 3] == '1' then
      count = min(before + cost, 4503599627370496)
    end
  end
  if commit and count ~= before then
    if count == 0 then
      redis.call('DEL', key)
    elseif before == 0 then
      redis.call('SET', key, int(count), 'PX', life(reset, jitter))
    else
      redis.call('INCRBY', key, int(count - before))
    end
  end
  if allowed then return ALLOW, took, max(0, limit - count), count, 0, reset end
  if cost > limit then return NEVER, took, 0, count, 0, reset end
  return DENY, took, 0, count, reset, reset
end
