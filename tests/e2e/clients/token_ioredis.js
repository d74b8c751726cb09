// ioredis, which resends by itself what was lost with a link: argv = path, how many. Prints the replies as JSON.
const { Redis } = require("ioredis");
const client = new Redis({ path: process.argv[2], retryStrategy: () => 1, maxRetriesPerRequest: 20 });
client.on("error", () => {});
(async () => {
  const replies = [];
  for (let n = 0; n < +process.argv[3]; n++)
    replies.push(await client.call("CTR.INCRBY", "s77:product_views", "5", "2", "TOKEN", `order-${n}`));
  console.log(JSON.stringify(replies));
  client.disconnect();
})();
