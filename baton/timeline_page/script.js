const zoom = document.getElementById("zoom");
const chart = document.getElementById("chart");
zoom.addEventListener("input", () => {
  const middle = (chart.scrollLeft + chart.clientWidth / 2) / chart.scrollWidth;
  document.documentElement.style.setProperty("--zoom", zoom.value);
  chart.scrollLeft = middle * chart.scrollWidth - chart.clientWidth / 2;
});
