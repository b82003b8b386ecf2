# SPDX-License-Identifier: BSD-3-Clause
# Sums up scsi_dispatch_cmd_start events; -v block=BYTES is the drive's sector.
function number_after(word,   at, text) {
  at = index($0, word)
  if (!at)
    return 0
  text = substr($0, at + length(word))
  return text + 0
}
/scsi_dispatch_cmd_start:/ {
  at = index($0, "cmnd=(")
  split(substr($0, at + 6), words, /[ )]/)
  name = words[1]
  bytes = number_after("txlen=") * block
  if (name ~ /^WRITE_(6|10|12|16|32)$/) { writes++; write_bytes += bytes }
  else if (name ~ /^READ_(6|10|12|16|32)$/) { reads++; read_bytes += bytes }
  else if (name ~ /^SYNCHRONIZE_CACHE/) syncs++
  else if (name ~ /^TEST_UNIT_READY/) tests++
  else if (name ~ /REPORT_ZONES/ || name == "ZBC_IN") reports++
  else if (name ~ /RESET_WRITE_POINTER/ || name == "ZBC_OUT") resets++
  else { other++; kinds[name]++ }
}
END {
  OFMT = "%.0f"; CONVFMT = "%.0f"
  print "writes", writes + 0; print "write_bytes", write_bytes + 0
  print "reads", reads + 0; print "read_bytes", read_bytes + 0
  print "syncs", syncs + 0; print "resets", resets + 0
  print "reports", reports + 0; print "tests", tests + 0; print "other", other + 0
  for (k in kinds) print "other:" k, kinds[k]
}
