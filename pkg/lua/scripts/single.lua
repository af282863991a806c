-- One key. ARGV: now µs or '', mode, cost, jitter ms, then the algorithm's own
-- numbers. Reply: code, taken, remaining, used, retry µs, reset µs, now µs.
local now = clock(ARGV[1])
local code, took, remaining, used, retry, reset =
  algorithm(KEYS[1], now, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV, 5, true)
return {code, took, remaining, used, retry, reset, now}
