"""Speed and size, each beside something that anybody can measure on the same machine in the same minute."""
