-- One key. ARGV: now µs or '', mode, cost, jitter ms, then the algorithm's own
-- numbers. Reply: code, taken, remaining, used, retry µs, reset µs, now µs.
local now = clock(ARGV[1])
local code, took, remaining, used, retry, reset =
  algorithm(KEYS[1], now, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV, 5, true)
return {code, took, remaining, used, retry, reset, now}
