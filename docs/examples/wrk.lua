-- Durable cycles with wrk: each thread claims and releases an environment of its own, over one connection.
--
--   wrk -t 4 -c 4 -d 30s -s docs/examples/wrk.lua http://127.0.0.1:8080
--
-- Needs LOCKKEEPER_TOKEN, and environments load-1, load-2, … (as many as threads) in the pipeline `load`.
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init()
  local environment = "/api/v1/organizations/acme/pipelines/load/ephemeral-environments/load-" .. number
  local headers = {
    ["Authorization"] = "Bearer " .. os.getenv("LOCKKEEPER_TOKEN"),
    ["Content-Type"] = "application/json",
  }
  claim = wrk.format("POST", environment .. "/sessions", headers, '{"ttlSeconds": 10}')
  release = wrk.format("DELETE", environment .. "/lock", headers)
  holds = false
end

function request()
  return holds and release or claim
end

function response(status)
  holds = status == 201
end
