// ioredis: argv = path, how many: one pipeline of that many hits. Prints as JSON how many replies, and the last one.
const { Redis } = require("ioredis");
const client = new Redis({ path: process.argv[2], maxRetriesPerRequest: 0 });
const pipe = client.pipeline();
for (let n = 0; n < +process.argv[3]; n++) pipe.hincrby("s77:product_views", "5", 1);
pipe.exec().then((replies) => {
  console.log(JSON.stringify([replies.length, replies.at(-1)[1]]));
  client.disconnect();
});
