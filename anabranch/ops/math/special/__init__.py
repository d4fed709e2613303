"""Special functions and the series behind them."""
