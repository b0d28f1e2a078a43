"""What every format of logs rests on: times, records, rows, a scan and what it complains of."""
