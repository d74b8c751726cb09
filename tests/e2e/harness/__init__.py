"""What the end-to-end tests are made of: real servers in fresh directories, tallyd, a cutting proxy, an oracle."""
