-- Concurrency. Numbers: limit, life of a lease µs, lease id. State: a sorted
-- set with one member "id#n" for each place held, scored by the lease's end.
local function concurrency(key, now, mode, cost, jitter, a, i, commit)
  local limit, ttl, id = tonumber(a[i]), tonumber(a[i + 1]), a[i + 2]
  local held = redis.call('ZCOUNT', key, '(' .. int(now), '+inf')
  local own = 0
  if id ~= '' then
    while own < held do
      local ends = redis.call('ZSCORE', key, id .. '#' .. int(own + 1))
      if not ends or tonumber(ends) <= now then break end
      own = own + 1
    end
  end
  local took, allowed, never, renew = 0, true, false, false
  if mode == CHARGE then
    took, renew = own, true
  elseif mode == REFUND then
    took = own
  elseif own > 0 then -- asked again: the answer may have been lost
    if mode ~= LOOK then took, renew = own, true end
  else
    allowed = held + cost <= limit
    never = not allowed and cost > limit
    if allowed and mode ~= LOOK then took = cost end
  end

  if commit and took > 0 then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', int(now))
    for n = 1, took do
      local member = id .. '#' .. int(n)
      if mode == REFUND then
        redis.call('ZREM', key, member)
      else
        redis.call('ZADD', key, int(now + ttl), member)
      end
    end
    local left = redis.call('PTTL', key)
    local wanted = tonumber(life(ttl, jitter))
    if mode ~= REFUND and left < wanted then redis.call('PEXPIRE', key, int(wanted)) end
  end
  if commit and not allowed then
    -- A lease that ends later than one taken now was taken before the clock
    -- stepped back: it must not hold its place for longer than that.
    local far = redis.call('ZRANGEBYSCORE', key, '(' .. int(now + ttl), '+inf')
    for n = 1, #far do redis.call('ZADD', key, int(now + ttl), far[n]) end
  end
  if mode == REFUND then
    held = held - took
  elseif own == 0 then
    held = held + took
  end
  local remaining = max(0, limit - held)
  if allowed then return ALLOW, took, remaining, held, 0, 0 end
  return never and NEVER or DENY, took, remaining, held, 0, 0
end
