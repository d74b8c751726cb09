# Redis.pm: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
use strict;
use warnings;
use JSON::PP;
use Redis;

open my $file, '<', $ARGV[0] or die $!;
my $script = decode_json(join '', <$file>);
my $client = Redis->new($ARGV[1] eq 'unix' ? (sock => $ARGV[2]) : (server => "127.0.0.1:$ARGV[2]"));
my %replies = (one_by_one => [map { 0 + $client->hincrby(@$_) } @{$script->{one_by_one}}], pipeline => []);
for my $hit (@{$script->{pipeline}}) {
    $client->hincrby(@$hit, sub { push @{$replies{pipeline}}, 0 + $_[0] });
}
$client->wait_all_responses;
$client->multi;
$client->hincrby(@$_) for @{$script->{multi}};
$replies{multi} = [map { 0 + $_ } $client->exec];
print encode_json(\%replies), "\n";
