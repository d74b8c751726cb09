// ioredis (HELLO 3, INFO as ready check): argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
const { Redis } = require("ioredis");
const [script, kind, where] = [require(process.argv[2]), process.argv[3], process.argv[4]];
const client = new Redis(kind === "unix" ? { path: where } : { host: "127.0.0.1", port: +where });
const values = (pairs) => pairs.map(([error, value]) => (error ? String(error) : value));
const filled = (pipe, hits) => hits.reduce((to, [key, field, n]) => to.hincrby(key, field, n), pipe);
(async () => {
  const replies = { one_by_one: [] };
  for (const hit of script.one_by_one) replies.one_by_one.push(await client.hincrby(...hit));
  replies.pipeline = values(await filled(client.pipeline(), script.pipeline).exec());
  replies.multi = values(await filled(client.multi(), script.multi).exec());
  console.log(JSON.stringify(replies));
  client.disconnect();
})();
