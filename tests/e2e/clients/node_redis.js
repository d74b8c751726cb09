// node-redis (HELLO 3 by default): argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
const { createClient } = require("redis");
const [script, kind, where] = [require(process.argv[2]), process.argv[3], process.argv[4]];
const client = createClient({ socket: kind === "unix" ? { path: where } : { host: "127.0.0.1", port: +where } });
const add = (to, [key, field, n]) => to.hIncrBy(key, field, n);
(async () => {
  await client.connect();
  const replies = { one_by_one: [] };
  for (const hit of script.one_by_one) replies.one_by_one.push(await add(client, hit));
  replies.pipeline = await Promise.all(script.pipeline.map((hit) => add(client, hit)));
  const multi = client.multi();
  script.multi.forEach((hit) => add(multi, hit));
  replies.multi = await multi.exec();
  console.log(JSON.stringify(replies));
  client.destroy();
})();
