"""The leaderboard: shares of the lost plasticity that methods recover, as a table, a chart and a page."""
